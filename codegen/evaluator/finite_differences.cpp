// SPDX-License-Identifier: Apache-2.0
#include "codegen/evaluator/finite_differences.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <kdagen/error.h>

#include "codegen/ir/Scalar.h"

namespace kdagen::evaluator {
namespace {

using Weights = std::map<std::string, double>;  // unit of each output

Weights output_units(kda::KernelOp forward) {
  Weights units;
  for (auto output : forward.block().getOps<kda::OutputOp>()) {
    if (output.getRole() != "output" || !llvm::isa<mlir::FloatType>(output.getStorage()))
      continue;  // integers are held
    auto coefficient = output.getUnitCoefficient();
    units[output.getTensor().str()] =
        coefficient ? kda::Scalar::of(coefficient->convertToDouble(), *output.getUnitSymbols()).value() : 1.0;
  }
  return units;
}

/// A number and how far float64 may have rounded it away.
struct Rounded {
  double value = 0, rounding = 0;
};

/// From an error of float32. Where the analysis gives up (2^x of a norm that may be anything, to its mind), at least
/// the last digits of the number itself are rounding.
double float64_rounding(double value, double float32_error) {
  return std::isfinite(float32_error) ? float32_error * 0x1p-29 : std::fabs(value) * 0x1p-49;
}

/// A difference quotient, how much of it may be the rounding of float64, and how far the last extrapolation moved it:
/// as far as that the step may be too long.
struct Measured {
  double value = 0, noise = 0, moved = 0;

  /// The part of |value - derived| that rounding does not explain.
  double error(const Rounded& derived) const {
    const double difference = std::fabs(derived.value - value), explained = noise + derived.rounding;
    if (!std::isfinite(explained)) return difference;
    return difference <= explained ? 0 : difference - explained;  // NaN stays
  }
  /// With the step's length as noise, too.
  Measured uncertain() const { return {value, noise + moved}; }
};

/// The forward around a base point with kda.detach, comparisons and branches held there.
class Loss {
 public:
  /// `saved`: inner values of the forward that base() shall hold too.
  Loss(kda::KernelOp forward, const Arrays& inputs, const Arrays& cotangents, const Instance& instance,
       const std::set<std::string>& saved)
      : forward_(forward),
        inputs_(inputs),
        cotangents_(cotangents),
        instance_(instance),
        units_(output_units(forward)) {
    EvaluateOptions options = exact();
    options.record_held = &held_;
    options.taps = saved;
    options.running_error = true;
    Result base = evaluate(forward, inputs_, instance, options);
    base_ = std::move(base.tensors);
    errors_ = std::move(base.error_bounds);
    for (const auto& [name, unit] : units_)
      if (auto found = cotangents.find("d" + name);
          found == cotangents.end() || found->second.values.size() < base_[name].values.size())
        throw UsageError(fmt::format("cotangent 'd{}' is missing or too short", name));
  }

  static EvaluateOptions exact() {
    EvaluateOptions options;
    options.round_inputs = false;
    return options;
  }
  const Arrays& base() const { return base_; }

  /// dL/ds at s = 0 for x + s * direction; `elements` are those of `name` where the direction is not 0.
  Measured derivative(const std::string& name, const std::vector<int64_t>& elements,
                      const std::vector<double>& direction, double step) {
    double estimates[3], noise = 0, moved = 0;
    for (int level = 0; level < 3; ++level) {
      double h = std::ldexp(step, -level);
      Measured change = difference(name, elements, direction, h);
      estimates[level] = change.value / (2 * h);
      noise = change.noise / (2 * h);
    }
    for (int k = 1; k < 3; ++k)  // the error's h^2 term, then its h^4 term
      for (int i = 2; i >= k; --i) {
        moved = (estimates[i] - estimates[i - 1]) / (std::pow(4.0, k) - 1);
        estimates[i] += moved;
      }
    // Weights of the three: 64/45, -20/45, 1/45, the first with the largest noise.
    return {estimates[2], 2 * noise, std::fabs(moved)};
  }

  /// The first of ever shorter steps at which the quotient agrees with `derived` to a hundredth of what is asked, else
  /// the nearest: a kink within a step, or a bend that is sharper than it, is no fault, and a wrong derivative is wrong
  /// at any step. A step whose noise exceeds 5e-7 of `size` tells nothing that a longer one does not; where that leaves
  /// no step that agrees (a norm of a row that is nearly 0 bends within any step of little noise), the step that leaves
  /// least open counts, whatever `derived` is, with what it leaves open as noise.
  Measured derivative_near(const Rounded& derived, double size, const std::string& name,
                           const std::vector<int64_t>& elements, const std::vector<double>& direction, double step) {
    Measured best = derivative(name, elements, direction, step), certain = best.uncertain();
    for (int shorter = 0; shorter < 5 && !(best.error(derived) <= 1e-8 * size); ++shorter) {
      step /= 8;
      const Measured next = derivative(name, elements, direction, step);
      if (next.noise <= 5e-7 * size && !(best.error(derived) <= next.error(derived))) best = next;
      if (const Measured open = next.uncertain(); open.noise < certain.noise || std::isnan(certain.noise))
        certain = open;
    }
    return certain.error(derived) <= best.error(derived) ? certain : best;
  }

 private:
  /// L(x + h direction) - L(x - h direction), taken element by element of the outputs before it is summed.
  Measured difference(const std::string& name, const std::vector<int64_t>& elements,
                      const std::vector<double>& direction, double h) {
    std::vector<double> saved = inputs_[name].values;
    auto shifted = [&](double sign) {
      std::vector<double>& x = inputs_[name].values;
      for (size_t i = 0; i < elements.size(); ++i) x[elements[i]] = saved[elements[i]] + sign * h * direction[i];
      EvaluateOptions options = exact();
      options.held = &held_;
      return evaluate(forward_, inputs_, instance_, options).tensors;
    };
    Arrays above = shifted(1), below = shifted(-1);
    inputs_[name].values = std::move(saved);
    Measured sum;
    for (const auto& [output, unit] : units_) {
      const std::vector<double>&a = above[output].values, &b = below[output].values, &errors = errors_[output].values;
      const std::vector<double>& cotangent = cotangents_.at("d" + output).values;
      for (size_t i = 0; i < a.size(); ++i) {
        if (a[i] != b[i]) sum.value += unit * cotangent[i] * (a[i] - b[i]);
        sum.noise += 2 * std::fabs(unit * cotangent[i]) * float64_rounding(a[i], errors[i]);
      }
    }
    return sum;
  }

  kda::KernelOp forward_;
  Arrays inputs_;
  const Arrays& cotangents_;
  const Instance& instance_;
  Weights units_;
  HeldValues held_;
  Arrays base_, errors_;
};

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return std::sqrt(sum);
}

double ratio(double error, double size) { return error == 0 ? 0 : error / size; }

Comparison compare_gradient(Loss& loss, const std::string& name, const std::vector<double>& x,
                            const std::vector<double>& gradient, const std::vector<double>& errors,
                            const FiniteDifferenceOptions& options, std::mt19937_64& random) {
  std::vector<int64_t> all(x.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<int64_t> chosen = all;
  std::shuffle(chosen.begin(), chosen.end(), random);
  if (static_cast<int64_t>(chosen.size()) > options.elements) chosen.resize(options.elements);
  auto scale = [&](int64_t i) { return std::max(std::fabs(x[i]), 0.25); };
  // The chosen elements may all have a gradient of exactly 0 (a maximum that is elsewhere): differences then are noise,
  // so an error is never judged against less than the whole gradient's typical element.
  double typical = norm(gradient) / std::sqrt(double(std::max<size_t>(gradient.size(), 1)));
  std::vector<double> measured, error;
  auto derived = [&](int64_t i) { return Rounded{gradient[i], float64_rounding(gradient[i], errors[i])}; };
  double largest_error = 0, largest = typical;
  for (int64_t i : chosen) {
    const double size = std::max(typical, std::fabs(gradient[i]));
    const Measured near = loss.derivative_near(derived(i), size, name, {i}, {1.0}, options.step * scale(i));
    measured.push_back(near.value);
    error.push_back(near.error(derived(i)));
    if (!(error.back() <= largest_error)) largest_error = error.back();
    largest = std::max(largest, std::fabs(near.value));
  }
  Comparison result{"d" + name};
  result.rel_l2 = ratio(norm(error), std::max(norm(measured), typical * std::sqrt(double(error.size()))));
  result.max_rel = ratio(largest_error, largest);
  std::vector<double> direction;
  Rounded along;
  double size = 0;
  for (int64_t i : all) {
    direction.push_back(scale(i) * (random() % 2 ? 1.0 : -1.0));
    along.value += gradient[i] * direction[i];
    along.rounding += derived(i).rounding * std::fabs(direction[i]);
    size += gradient[i] * direction[i] * gradient[i] * direction[i];
  }
  const double usual = std::sqrt(size);
  const Measured near = loss.derivative_near(along, usual, name, all, direction, options.step / 128);
  result.directional = ratio(near.error(along), std::max(usual, std::fabs(near.value)));
  return result;
}

}  // namespace

Comparison compare(const std::string& name, const std::vector<double>& x, const std::vector<double>& reference) {
  Comparison result{name};
  if (x.size() != reference.size()) {
    result.rel_l2 = result.max_rel = std::numeric_limits<double>::infinity();
    return result;
  }
  std::vector<double> error(x.size());
  double largest_error = 0, largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error[i] = x[i] == reference[i] ? 0 : x[i] - reference[i];
    // NaN must stick, std::max drops it
    largest_error = !(std::fabs(error[i]) <= largest_error) ? std::fabs(error[i]) : largest_error;
    largest = std::max(largest, std::fabs(reference[i]));
    if (std::isnan(error[i])) largest_error = std::numeric_limits<double>::infinity();
  }
  result.rel_l2 = ratio(norm(error), norm(reference));
  result.max_rel = ratio(largest_error, largest);
  return result;
}

std::vector<Comparison> compare_with_finite_differences(kda::KernelOp forward, kda::KernelOp backward,
                                                        const Arrays& inputs, const Arrays& cotangents,
                                                        const Instance& instance,
                                                        const FiniteDifferenceOptions& options) {
  std::set<std::string> saved;
  for (auto input : backward.block().getOps<kda::InputOp>())
    if (input.getRole() == "residual") saved.insert(input.getTensor().str());
  Loss loss(forward, inputs, cotangents, instance, saved);
  Arrays backward_inputs = loss.base();
  for (const auto* arrays : {&inputs, &cotangents})
    for (const auto& [name, array] : *arrays) backward_inputs[name] = array;
  EvaluateOptions exactly = Loss::exact();
  exactly.running_error = true;
  const Result derived = evaluate(backward, backward_inputs, instance, exactly);
  std::vector<Comparison> result;
  std::mt19937_64 random(options.seed);
  for (auto input : forward.block().getOps<kda::InputOp>()) {
    std::string name = input.getTensor().str();
    auto given = inputs.find(name);
    if (given == inputs.end()) continue;  // optional and left out
    auto found = derived.tensors.find("d" + name);
    if (found == derived.tensors.end()) {
      constexpr double infinity = std::numeric_limits<double>::infinity();
      result.push_back({"d" + name, infinity, infinity, infinity});
      continue;
    }
    result.push_back(compare_gradient(loss, name, given->second.values, found->second.values,
                                      derived.error_bounds.at("d" + name).values, options, random));
  }
  return result;
}

std::vector<Comparison> compare_kernels(kda::KernelOp kernel, kda::KernelOp reference, const Arrays& inputs,
                                        const Instance& instance, const EvaluateOptions& kernel_options,
                                        const EvaluateOptions& reference_options) {
  Arrays got = evaluate(kernel, inputs, instance, kernel_options).tensors;
  std::vector<Comparison> result;
  for (const auto& [name, expected] : evaluate(reference, inputs, instance, reference_options).tensors)
    result.push_back(compare(name, got[name].values, expected.values));
  return result;
}

}  // namespace kdagen::evaluator
