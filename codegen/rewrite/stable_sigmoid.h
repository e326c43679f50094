// SPDX-License-Identifier: Apache-2.0
// stable-sigmoid': a derivative of the sigmoid that keeps its digits where the sigmoid is saturated.
//
//   s*(1-s), with any other factors between and around, s = sigmoid(z)  ->  sigmoid_grad(z)
//   sigmoid(z)*sigmoid(-z)                                               ->  sigmoid_grad(z)
//   u - u*s, s a factor of u                                             ->  u with s replaced by sigmoid_grad(z)
// Guard: both factors are of the same z. Forward and backward values alike.
// Why: 1-s loses all digits for z > 17, while sigmoid_grad(z) = e/(1+e)^2, e = exp(-|z|), is right to its last bits.
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {
void stable_sigmoid(KernelOp kernel, RewriteReport& report);
}  // namespace kdagen::kda
