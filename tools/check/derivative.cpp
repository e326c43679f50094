// SPDX-License-Identifier: Apache-2.0
#include "tools/check/derivative.h"

#include <algorithm>

#include "codegen/evaluator/finite_differences.h"
#include "tools/check/problem.h"

namespace kdagen {
namespace {

/// Twice extrapolated differences reach 1e-9 and better where nothing saturates.
constexpr double difference_bound = 1e-6;
constexpr int64_t measured_elements = 6;

Verdict verdict_of(const evaluator::Comparison& comparison) {
  Verdict verdict;
  verdict.name = comparison.name;
  verdict.rel_l2 = comparison.rel_l2;
  verdict.max_rel = std::max(comparison.max_rel, comparison.directional);
  verdict.rel_bound = verdict.max_bound = difference_bound;
  verdict.ok = comparison.rel_l2 <= difference_bound && comparison.max_rel <= difference_bound &&
               comparison.directional <= difference_bound;
  return verdict;
}

Shape small_shape(const Shape& shape) {
  Shape small;
  small.packed = true;
  small.heads = std::min<int64_t>(shape.heads, 2);
  small.chunk = shape.chunk;
  small.dim = shape.dim;
  small.seqlens = {std::min<int64_t>(shape.chunk, 16) + 3, 0, 2};
  small.dead_rows = 1;
  return small;
}

}  // namespace

std::vector<Verdict> compare_with_differences(const CheckRequest& request, kda::KernelOp forward,
                                              const Problem& problem, const Workload& workload,
                                              const std::string& regime) {
  CompileOptions options;
  options.operands = request.options.operands;
  Compilation backward(request.graph, Direction::bwd, options);
  Problem small = problem;
  small.shape = small_shape(problem.shape);
  for (Declaration& input : small.inputs)
    input.dtype = "f64";  // numbers of a narrow type sit on kinks, such as a clamp's ends
  const evaluator::Instance instance = instance_of(small.shape);
  const Tensors inputs = workload.inputs(small, regime, request.seed);
  const evaluator::Arrays arrays = arrays_of(inputs);
  ConsumerOptions consumer;
  consumer.seed = request.seed;
  const Tensors exponents = tensors_of(evaluator::output_exponents(forward, arrays, instance), forward, small.shape);
  consumer.exponents = &exponents;
  const evaluator::Arrays cotangents = arrays_of(workload.upstream(small, inputs, consumer));
  evaluator::FiniteDifferenceOptions how;
  how.elements = measured_elements;
  how.seed = request.seed;
  std::vector<Verdict> verdicts;
  for (const evaluator::Comparison& comparison : evaluator::compare_with_finite_differences(
           forward, backward.kernel(Stage::derived), arrays, cotangents, instance, how))
    verdicts.push_back(verdict_of(comparison));
  return verdicts;
}

}  // namespace kdagen
