// SPDX-License-Identifier: Apache-2.0
// Bounds that intervals alone lose, because the operands hang together:
//   x - max(x) <= 0                          |x*rsqrt(c*sum x^2 + e)| <= 1/sqrt(c), and the same with / and sqrt
//   total(x) - cumsum(x) = sum of the rows behind: at most chunk-1 of them
//   cumsum(x) - x = sum of the rows before   y/sum(y) in [0, 1] for y >= 0
#pragma once
#include "codegen/analysis/transfer.h"

namespace kdagen {

/// A bound of the op's result by one of these forms; everything if none applies.
Interval bounded_form(mlir::Operation* op, const Assumptions& assumptions, IntervalOf of);

}  // namespace kdagen
