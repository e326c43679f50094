// SPDX-License-Identifier: Apache-2.0
// finite-exponential: what parameters make of an exponential meets the rows as a finite number, and last.
//
//   (x*p)*y  ->  (x*y)*p
//   x*p      ->  x*min(max(p, -M), M),  M the largest float
// Guard: p depends on parameters alone and on an exponential of them, and is not proven to stay within M; x and y do
// not depend on parameters alone; x*p has no other use than in products. Of the two bounds only the one that p may pass
// is built; NaN stays. In both passes.
// Why: nobody promises a bound of a parameter's exponent (those of inputs are proven, anchored or refused). An infinite
// rate times a factor that vanishes is NaN, in the gate and in every gradient behind it; the largest float times 0 is
// 0, unless a third factor has made it infinite before.
//
// After the rules that know an exponential by its product.
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {
void finite_exponential(KernelOp kernel, RewriteReport& report);
}  // namespace kdagen::kda
