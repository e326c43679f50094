// SPDX-License-Identifier: Apache-2.0
// Derived against measured derivatives, and one kernel against another, all in float64.
#pragma once
#include <string>
#include <vector>

#include "codegen/evaluator/evaluator.h"

namespace kdagen::evaluator {

/// How far a tensor is from its reference. Figures are NaN or infinite where nothing can be said; compare with
/// !(figure <= tolerance).
struct Comparison {
  std::string name;
  double rel_l2 = 0;   ///< ||x - reference|| / ||reference||
  double max_rel = 0;  ///< max |x - reference| / max |reference|
  /// Finite differences only: |<gradient, v> - derivative along v| / (||gradient|| ||v|| / sqrt(elements)) for a random
  /// direction v through all elements: sees faults outside the elements that were measured one by one. Its steps are
  /// short, so that few elements pass a kink (of relu, max, ...).
  double directional = 0;
};

struct FiniteDifferenceOptions {
  int64_t elements = 16;    ///< at most this many elements of a tensor, drawn at random, are measured one by one
  double step = 1.0 / 256;  ///< first step, times max(|x|, 1/4); two more of half the length each are extrapolated
  uint64_t seed = 1;
};

/// The derivative of L = sum over outputs of <unit * cotangent, output> with respect to every input and parameter of
/// the unrewritten `forward`, by central differences extrapolated twice (Richardson), against the gradients d<input>
/// that `backward` computes. kda.detach is held at the base point, and so are comparisons and the branches of relu,
/// abs, clamp, max and min: a derivative is that of the branch taken. kda.round is the identity, nothing is rounded to
/// storage. `cotangents`: d<output> in the outputs' units, as a caller hands them over. Saved values that the backward
/// reads are taken from the forward's values.
std::vector<Comparison> compare_with_finite_differences(kda::KernelOp forward, kda::KernelOp backward,
                                                        const Arrays& inputs, const Arrays& cotangents,
                                                        const Instance& instance,
                                                        const FiniteDifferenceOptions& options = {});

/// Every output of `reference` against the one of that name in `kernel`, on the same inputs; infinite where it is
/// absent.
std::vector<Comparison> compare_kernels(kda::KernelOp kernel, kda::KernelOp reference, const Arrays& inputs,
                                        const Instance& instance, const EvaluateOptions& kernel_options = {},
                                        const EvaluateOptions& reference_options = {});

/// x against reference, element by element.
Comparison compare(const std::string& name, const std::vector<double>& x, const std::vector<double>& reference);

}  // namespace kdagen::evaluator
