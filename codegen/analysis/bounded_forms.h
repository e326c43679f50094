// SPDX-License-Identifier: Apache-2.0
// Bounds that intervals alone lose, because the operands hang together:
//   x - max(x) <= 0                          |x*rsqrt(c*sum x^2 + e)| <= 1/sqrt(c), and the same with / and sqrt
//   total(x) - cumsum(x) = sum of the rows behind: at most chunk-1 of them
//   cumsum(x) - x = sum of the rows before   y/sum(y) in [0, 1] for y >= 0
//   y - boundary(y), y linear in sums cumsum(x): sums over the rows of a sub-chunk; with rint(boundary(y)) 1/2 more
#pragma once
#include "codegen/analysis/transfer.h"

namespace kdagen {

/// A bound of the op's result by one of these forms; everything if none applies.
Interval bounded_form(mlir::Operation* op, const Assumptions& assumptions, IntervalOf of);

/// Where y - boundary(y) lies with sub-chunks of so many rows; everything if y is not made of sums over the rows so far
/// and bounded values.
Interval range_in_subchunk(mlir::Value y, int64_t rows, IntervalOf of);

}  // namespace kdagen
