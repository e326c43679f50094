// SPDX-License-Identifier: Apache-2.0
// fused-multiply-add: a*b + c with one rounding.
//
//   a*b + c -> fma(a, b, c)    c - a*b -> fma(-a, b, c)    a*b - c -> fma(a, b, -c)
// Guard: the sum depends on a cotangent and the product has no other use and the sum's axes. Of two products the second
// is fused. What the forward computes stays as it is, so that a backward recomputes the forward's bits. Why: half of
// the additions of a backward disappear, and each takes a rounding with it.
#pragma once
#include "codegen/ir/Dialect.h"

namespace kdagen::schedule {
void contract_products(kda::KernelOp kernel);
}  // namespace kdagen::schedule
