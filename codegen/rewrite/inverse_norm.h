// SPDX-License-Identifier: Apache-2.0
// inverse-norm: the reciprocal norm of a row, right also where the sum of squares is beyond a float.
//
//   rsqrt(c*sum_d x^2 [+ e]) -> kda.inverse_norm x, c, e
// Guard: the sum goes over the feature axis alone; c is a constant in [2^-40, 1] (1 if absent), e one in [0, 1] (0); x
// has no proven bound that keeps c*sum x^2 below 2^127 (fp16 inputs have one). In tiles only. Names and values of usual
// rows stay. Why: a row of norm 2^64 has a sum of squares of infinity, so its reciprocal norm would be 0 and the
// normalised row 0 instead of length 1, silently. Kernels look at the finished sum; only where it is no finite number
// do they add up again, x * 2^-72.
//
// The last rewrite but the lowering of fixed-point sums: the others know a norm by its rsqrt.
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {
void inverse_norm(KernelOp kernel, const RewriteOptions& options, RewriteReport& report);
}  // namespace kdagen::kda
