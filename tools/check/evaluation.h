// SPDX-License-Identifier: Apache-2.0
// Programs in float64 with their running error analysis.
#pragma once
#include "codegen/evaluator/evaluator.h"
#include "codegen/evaluator/number.h"
#include "specs/workloads/tensor.h"

namespace kdagen {

using evaluator::f64_factor;

/// Values and their running error analysis.
struct Evaluation {
  evaluator::Arrays tensors, errors;
};

Evaluation evaluate_f64(kda::KernelOp kernel, const evaluator::Arrays& inputs, const Shape& shape, bool obey_rounds);

/// What float32 is judged against: the unrewritten program, an oracle of its own, as far as float64 computes it well
/// enough (1 - s of a saturated sigmoid has no digits left). Where its rounding in float64 comes near the bound for
/// float32, `factor` times the analysis, the rewritten program stands in.
evaluator::Arrays reference_of(const Evaluation& rewritten, const Evaluation& unrewritten, double factor);

}  // namespace kdagen
