// SPDX-License-Identifier: Apache-2.0
#include "tools/check/comparison.h"

#include <algorithm>
#include <optional>

#include "tools/check/problem.h"

namespace kdagen {
namespace {

/// 6 b_h sqrt(sum of terms^2): six standard deviations of a sum of independent errors.
constexpr double terms_deviations = 6;

struct Place {
  HeadLayout layout;
  bool per_chunk = false;
  int64_t unread_from = 0;  ///< elements from here on belong to no sequence
};

Place place_of(const Shape& shape, const Declaration& tensor) {
  Place place;
  place.per_chunk = tensor.has(AxisRole::chunk);
  if (tensor.has(AxisRole::head)) place.layout.heads = shape.heads;
  if (tensor.has(AxisRole::feature)) place.layout.width = shape.dim;
  const int64_t row = place.layout.heads * place.layout.width;
  if (!tensor.has(AxisRole::head)) place.layout.width = std::max<int64_t>(1, element_count(dense_shape(tensor, shape)));
  place.unread_from = place.per_chunk              ? static_cast<int64_t>(shape.tiles().size()) * row
                      : tensor.has(AxisRole::rows) ? (shape.rows() - shape.dead_rows) * row
                                                   : row;
  return place;
}

class Comparator {
 public:
  Comparator(const Problem& problem, const Workload& workload, const Reference& reference,
             const ComparisonOptions& options)
      : problem_(problem), workload_(workload), reference_(reference), options_(options) {}

  /// Parameters must come after the gradients that they sum.
  std::optional<Verdict> compare(const evaluator::TensorInfo& info, const Declaration& declaration,
                                 const HostTensor* actual) {
    const std::vector<double>& expected = reference_.tensors.at(info.name).values;
    const Place place = place_of(problem_.shape, declaration);
    Criteria criteria = criteria_for(info);
    if (!criteria.errors && !criteria.rel_l2 && !criteria.terms) return std::nullopt;
    criteria.layout = place.layout;
    if (declaration.has(AxisRole::rows)) base_bounds_[info.name] = head_bounds(expected, criteria);
    if (!actual) return judge(info.name, expected, nullptr, criteria);

    std::vector<double> values = actual->values;
    std::vector<char> must_be_zero;
    if (values.size() != expected.size()) {
      Verdict verdict = judge(info.name, expected, nullptr, criteria);
      verdict.note = "of the wrong size";
      return verdict;
    }
    if (place.per_chunk) {
      std::fill(values.begin() + place.unread_from, values.end(), 0.0);
    } else {
      must_be_zero.assign(values.size(), 0);
      std::fill(must_be_zero.begin() + place.unread_from, must_be_zero.end(), 1);
      criteria.must_be_zero = &must_be_zero;
    }
    return judge(info.name, expected, &values, criteria);
  }

 private:
  template <class Map>
  static const std::vector<double>* find(const Map& map, const std::string& name) {
    auto found = map.find(name);
    return found == map.end() ? nullptr : &found->second.values;
  }

  Criteria criteria_for(const evaluator::TensorInfo& info) const {
    Criteria criteria;
    criteria.dtype = options_.storage.empty() ? info.dtype : options_.storage;
    criteria.factor = options_.factor;
    criteria.errors = find(reference_.errors, info.name);
    criteria.unavoidable = find(reference_.unavoidable, info.name);
    DeclaredBound declared;
    if (options_.consumer)
      declared = workload_.bound(problem_, options_.regime, info.name, options_.oracle, *options_.consumer)
                     .value_or(DeclaredBound{});
    criteria.rel_l2 = declared.rel_l2;
    criteria.max_rel = declared.max_rel;
    if (criteria.dtype == "bf16") {
      criteria.storage = declared.storage_bf16;
      criteria.max_storage = declared.max_storage_bf16;
    }
    set_terms(info.name, declared, criteria);
    return criteria;
  }

  void set_terms(const std::string& name, const DeclaredBound& declared, Criteria& criteria) const {
    auto terms = reference_.terms.find(name);
    if (terms == reference_.terms.end()) return;
    auto base = base_bounds_.find(terms->second.summed);
    if (declared.terms_factor)
      criteria.terms_factor = {*declared.terms_factor};
    else if (base != base_bounds_.end())
      criteria.terms_factor = base->second;
    else
      return;
    if (!declared.terms_factor)
      for (double& factor : criteria.terms_factor) factor *= terms_deviations;
    criteria.terms = &terms->second.root_sum_square;
  }

  const Problem& problem_;
  const Workload& workload_;
  const Reference& reference_;
  const ComparisonOptions& options_;
  std::map<std::string, std::vector<double>> base_bounds_;  ///< by head, of gradients that parameters sum
};

}  // namespace

std::vector<Verdict> compare_outputs(const Problem& problem, const Workload& workload, const Reference& reference,
                                     const Tensors& actual, kda::KernelOp kernel, const ComparisonOptions& options) {
  std::vector<evaluator::TensorInfo> infos = evaluator::tensors_of(kernel, instance_of(problem.shape));
  std::stable_sort(infos.begin(), infos.end(), [](const auto& a, const auto& b) {
    return (a.role == "param_gradient") < (b.role == "param_gradient");
  });
  Comparator comparator(problem, workload, reference, options);
  std::vector<Verdict> verdicts;
  for (const evaluator::TensorInfo& info : infos) {
    if (!info.is_output || info.every > 0 || !reference.tensors.count(info.name)) continue;  // anchors: see anchors.h
    auto found = actual.find(info.name);
    const HostTensor* tensor = found == actual.end() ? nullptr : &found->second;
    std::optional<Verdict> verdict = comparator.compare(info, declaration_of(kernel, info), tensor);
    if (verdict) verdicts.push_back(std::move(*verdict));
  }
  return verdicts;
}

}  // namespace kdagen
