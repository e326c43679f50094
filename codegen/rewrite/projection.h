// SPDX-License-Identifier: Apache-2.0
// projection: the backward of a row norm, with one row reduction.
//
//   y = x*inv, inv = rsqrt(c*sum_A x^2 + e):
//   dy*inv - x*c*inv^3*sum_A(dy*x) [+ rest]  ->  (dy - y*(c*sum_A(dy*y)))*inv [+ rest]
// and the same times f on both sides: f that varies along A is multiplied outside the sum, any other may go into dy.
// Guard: the sum goes over the axes A of the norm's own sum, every summand in it has the factor x, and dy*inv stands in
// the same sum with that very dy; c is a constant (1 for the Euclidean norm, 1/extent for the mean form), e is
// anything. Backward values only. dy is whatever has accumulated as the cotangent of y; exact for e > 0 too. Why: y is
// O(1), so neither the reduction nor the correction can overflow where x*inv^3 does.
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {
void projection(KernelOp kernel, RewriteReport& report);
}  // namespace kdagen::kda
