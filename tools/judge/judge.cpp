// SPDX-License-Identifier: Apache-2.0
#include "tools/judge/judge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <kdagen/error.h>

#include "specs/workloads/tensor.h"

namespace kdagen {
namespace {

constexpr double unit_roundoff = 0x1p-24;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// 2-norm and max of a family of numbers. A NaN stays in both.
struct Size {
  double square = 0, max = 0;

  void add(double x) {
    square += x * x;
    // Not std::max: it would drop a NaN.
    if (!(std::fabs(x) <= max)) max = std::isnan(max) ? max : std::fabs(x);
  }
  double norm() const { return std::sqrt(square); }
};

/// x / size; 0/0 is 0: nothing was there and nothing came.
double relative(double x, double size) {
  if (size > 0) return x / size;
  return x == 0 ? 0 : x / size;
}

struct HeadSizes {
  int64_t elements = 0;
  Size error, reference, bound, terms, unavoidable;
};

/// Scaled by a power of two before squaring, so that gradients around 2^-600 do not vanish.
double common_scale(const std::vector<double>& reference) {
  double max = 0;
  for (double x : reference)
    if (std::isfinite(x)) max = std::max(max, std::fabs(x));
  return max > 0 ? std::ldexp(1.0, -std::ilogb(max)) : 1.0;
}

std::vector<HeadSizes> measure(const std::vector<double>& reference, const std::vector<double>& actual,
                               const Criteria& criteria, double scale) {
  std::vector<HeadSizes> heads(criteria.layout.heads);
  for (size_t i = 0; i < reference.size(); ++i) {
    HeadSizes& head = heads[static_cast<int64_t>(i) / criteria.layout.width % criteria.layout.heads];
    const double difference = actual[i] == reference[i] ? 0.0 : actual[i] - reference[i];
    ++head.elements;
    head.error.add(difference * scale);
    head.reference.add(reference[i] * scale);
    if (criteria.errors) head.bound.add((*criteria.errors)[i] * scale);
    if (criteria.terms) head.terms.add((*criteria.terms)[i] * scale);
    if (criteria.unavoidable) head.unavoidable.add((*criteria.unavoidable)[i] * scale);
  }
  return heads;
}

void merge(Size& whole, const Size& part) {
  whole.square += part.square;
  if (!(part.max <= whole.max)) whole.max = std::isnan(whole.max) ? whole.max : part.max;
}

HeadSizes sum_of(const std::vector<HeadSizes>& heads) {
  HeadSizes whole;
  for (const HeadSizes& head : heads) {
    merge(whole.error, head.error);
    merge(whole.reference, head.reference);
    merge(whole.bound, head.bound);
    merge(whole.terms, head.terms);
    merge(whole.unavoidable, head.unavoidable);
  }
  return whole;
}

void check_sizes(const std::string& name, const std::vector<double>& reference, const std::vector<double>* actual,
                 const Criteria& criteria) {
  auto differs = [&](const auto* values) { return values && values->size() != reference.size(); };
  if (differs(actual) || differs(criteria.errors) || differs(criteria.terms) || differs(criteria.unavoidable) ||
      differs(criteria.must_be_zero))
    throw KdagenBug("judge: " + name + " and what it is judged by differ in size");
  if (!criteria.errors && !criteria.rel_l2 && !criteria.terms) throw KdagenBug("judge: no bound for " + name);
}

/// K ||e|| and declared bounds, the smaller one each, and storage on top; relative to `sizes.reference`.
void set_bounds(const HeadSizes& sizes, const Criteria& criteria, double storage, double max_storage,
                Verdict& verdict) {
  verdict.rel_bound = criteria.rel_l2.value_or(infinity);
  verdict.max_bound = criteria.max_rel.value_or(infinity);
  if (criteria.errors) {
    verdict.rel_bound =
        std::min(verdict.rel_bound, relative(criteria.factor * sizes.bound.norm(), sizes.reference.norm()));
    verdict.max_bound = std::min(verdict.max_bound, relative(criteria.factor * sizes.bound.max, sizes.reference.max));
  }
  verdict.rel_bound =
      std::max(verdict.rel_bound, relative(1.05 * sizes.unavoidable.norm(), sizes.reference.norm())) + storage;
  verdict.max_bound =
      std::max(verdict.max_bound, relative(1.05 * sizes.unavoidable.max, sizes.reference.max)) + max_storage;
  // Without a bound of its own the largest error may be all of the allowed norm.
  if (!criteria.errors && !criteria.max_rel)
    verdict.max_bound = relative(verdict.rel_bound * sizes.reference.norm(), sizes.reference.max);
}

void set_figures(const HeadSizes& sizes, Verdict& verdict) {
  verdict.rel_l2 = relative(sizes.error.norm(), sizes.reference.norm());
  verdict.max_rel = relative(sizes.error.max, sizes.reference.max);
}

/// The inequality in absolute numbers; a bound that is not finite bounds nothing.
bool within(double error, double relative_bound, double reference, double absolute_bound) {
  const double bound = reference > 0 ? relative_bound * reference : absolute_bound;
  return std::isfinite(bound) && error <= bound;
}

void judge_general(const std::vector<HeadSizes>& heads, const Criteria& criteria, double storage, double max_storage,
                   double scale, Verdict& verdict) {
  const HeadSizes whole = sum_of(heads);
  set_figures(whole, verdict);
  set_bounds(whole, criteria, storage, max_storage, verdict);
  const double analysis = criteria.factor * whole.bound.norm(), max_analysis = criteria.factor * whole.bound.max;
  verdict.ok = within(whole.error.norm(), verdict.rel_bound, whole.reference.norm(), analysis) &&
               within(whole.error.max, verdict.max_bound, whole.reference.max, max_analysis);
  if (!verdict.ok || !criteria.errors || heads.size() == 1) return;
  const FloatFormat& format = float_format(criteria.dtype);
  for (size_t h = 0; h < heads.size(); ++h) {
    const HeadSizes& head = heads[h];
    // A head may have few elements: storage may take a whole roundoff in each, or all of them by underflow.
    const double storage_allowance = criteria.dtype == "f64"
                                         ? 0
                                         : std::max(storage, 1.02 * format.unit) * head.reference.norm() +
                                               scale * format.tiny * std::sqrt(static_cast<double>(head.elements));
    const double bound = criteria.factor * head.bound.norm() + storage_allowance;
    if (std::isfinite(bound) && head.error.norm() <= bound) continue;
    set_figures(head, verdict);
    verdict.rel_bound = relative(bound, head.reference.norm());
    verdict.ok = false;
    verdict.note = fmt::format("head {} exceeds its own error analysis; figures are that head's", h);
    return;
  }
}

void judge_parameter(const std::vector<HeadSizes>& heads, const Criteria& criteria, double storage, double max_storage,
                     Verdict& verdict) {
  const HeadSizes whole = sum_of(heads);
  set_figures(whole, verdict);
  verdict.ok = true;
  double largest = 0;
  Size allowed;
  for (size_t h = 0; h < heads.size(); ++h) {
    const double by_terms = criteria.terms_factor.at(criteria.terms_factor.size() == 1 ? 0 : h) * heads[h].terms.norm();
    allowed.add(by_terms);
    const double rule = std::max(by_terms, 1.05 * heads[h].unavoidable.norm());
    const double bound = rule + std::max(storage, max_storage) * heads[h].reference.norm();
    largest = std::max(largest, bound);
    if (std::isfinite(bound) && heads[h].error.norm() <= bound) continue;
    verdict.ok = false;
    if (verdict.note.empty())
      verdict.note = fmt::format("head {}: |error| is {:.2e} of its allowance", h, heads[h].error.norm() / bound);
  }
  verdict.rel_bound =
      std::min(relative(allowed.norm(), whole.reference.norm()), criteria.rel_l2.value_or(infinity)) + storage;
  if (criteria.rel_l2 && !within(whole.error.norm(), *criteria.rel_l2 + storage, whole.reference.norm(), 0))
    verdict.ok = false;
  verdict.max_bound = relative(largest, whole.reference.max);
}

}  // namespace

double storage_rel(const std::vector<double>& reference, const std::string& dtype, std::optional<double> declared) {
  const FloatFormat& format = float_format(dtype);
  if (dtype == "f64") return declared.value_or(0);
  const double scale = common_scale(reference);
  Size size, rounding;
  for (double x : reference) {
    size.add(x * scale);
    rounding.add((round_to(x, format) - x) * scale);
  }
  // 1.8e-3 for bf16: the mean square of a rounding error over the mantissas, with a little room.
  const double rule = declared.value_or(1.8e-3 * 0x1p8 * format.unit);
  const double own = 1.05 * relative(rounding.norm(), size.norm());
  return std::max(rule, std::isfinite(own) ? own : 0);
}

double storage_max(const std::vector<double>& reference, const std::string& dtype, std::optional<double> declared) {
  const FloatFormat& format = float_format(dtype);
  if (dtype == "f64") return declared.value_or(0);
  Size size;
  for (double x : reference) size.add(x);
  const double underflow = size.max > 0 ? format.tiny / size.max : 0;
  return declared.value_or(4e-3 * 0x1p8 * format.unit) + underflow;
}

std::vector<double> head_bounds(const std::vector<double>& reference, const Criteria& criteria) {
  std::vector<double> bounds;
  for (const HeadSizes& head : measure(reference, reference, criteria, common_scale(reference))) {
    double bound = criteria.rel_l2.value_or(infinity);
    if (criteria.errors) bound = std::min(bound, relative(criteria.factor * head.bound.norm(), head.reference.norm()));
    bounds.push_back(head.reference.norm() > 0 ? bound : 0);
  }
  return bounds;
}

Verdict judge(const std::string& name, const std::vector<double>& reference, const std::vector<double>* actual,
              const Criteria& criteria) {
  check_sizes(name, reference, actual, criteria);
  Verdict verdict;
  verdict.name = name;
  if (!actual) {
    verdict.rel_l2 = verdict.max_rel = std::numeric_limits<double>::quiet_NaN();
    verdict.rel_bound = criteria.rel_l2.value_or(infinity);
    verdict.max_bound = criteria.max_rel.value_or(infinity);
    verdict.note = "absent";
    return verdict;
  }
  const double scale = common_scale(reference);
  const std::vector<HeadSizes> heads = measure(reference, *actual, criteria, scale);
  const double storage = storage_rel(reference, criteria.dtype, criteria.storage);
  const double max_storage = storage_max(reference, criteria.dtype, criteria.max_storage);
  if (criteria.errors) {
    const HeadSizes whole = sum_of(heads);
    if (whole.reference.norm() > 0) verdict.kappa = whole.bound.norm() / (unit_roundoff * whole.reference.norm());
  }
  if (criteria.terms)
    judge_parameter(heads, criteria, storage, max_storage, verdict);
  else
    judge_general(heads, criteria, storage, max_storage, scale, verdict);
  for (size_t i = 0; criteria.must_be_zero && i < reference.size(); ++i)
    if ((*criteria.must_be_zero)[i] && (*actual)[i] != 0) {
      verdict.ok = false;
      verdict.note = fmt::format("element {} belongs to no sequence and is {} instead of 0", i, (*actual)[i]);
      break;
    }
  return verdict;
}

}  // namespace kdagen
