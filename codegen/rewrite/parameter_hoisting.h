// SPDX-License-Identifier: Apache-2.0
// parameter-hoisting: what depends on parameters alone leaves the sums.
//
//   sum_A(x*a) -> a*sum_A(x)
// Guard: x depends on a cotangent, a on parameters alone and on none of the axes A; x*a has no other use (a gradient
// per token that is needed anyway is summed as it is). Why: the factor is multiplied once after the sum over all tiles
// instead of once a token.
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {
void parameter_hoisting(KernelOp kernel, RewriteReport& report);
}  // namespace kdagen::kda
