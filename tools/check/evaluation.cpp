// SPDX-License-Identifier: Apache-2.0
#include "tools/check/evaluation.h"

#include <cmath>

#include "tools/check/problem.h"

namespace kdagen {
namespace {

double norm_of(const evaluator::Array& array) {
  double norm = 0;
  for (double x : array.values) norm = std::hypot(norm, x);
  return norm;
}

}  // namespace

Evaluation evaluate_f64(kda::KernelOp kernel, const evaluator::Arrays& inputs, const Shape& shape, bool obey_rounds) {
  evaluator::EvaluateOptions options;
  options.obey_rounds = obey_rounds;
  options.running_error = true;
  options.round_inputs = false;  // they are as they are stored, but for residuals that shall stay exact
  evaluator::Result result = evaluator::evaluate(kernel, inputs, instance_of(shape), options);
  return {std::move(result.tensors), std::move(result.error_bounds)};
}

evaluator::Arrays reference_of(const Evaluation& rewritten, const Evaluation& unrewritten, double factor) {
  evaluator::Arrays result = unrewritten.tensors;
  for (auto& [name, array] : result) {
    auto own = rewritten.errors.find(name), other = unrewritten.errors.find(name);
    if (own == rewritten.errors.end() || other == unrewritten.errors.end()) continue;
    const double rounding = f64_factor * norm_of(other->second), bound = factor * norm_of(own->second);
    if (rounding > bound / 16) array = rewritten.tensors.at(name);
  }
  return result;
}

}  // namespace kdagen
