// SPDX-License-Identifier: Apache-2.0
// deferred-constant: constant factors and signs move past linear ops, towards the result, and cancel there.
//
//   (c*x)*y -> c*(x*y)      c*x + c*y -> c*(x+y)      c*x - c*y -> c*(x-y)      sum(c*x) -> c*sum(x), likewise scan,
//   last, at_last, broadcast, shift filled with 0, select(m, c*x, c*y or 0)
//   c1*(c2*x) -> (c1*c2)*x     ln2*ln2^-1 = 1
//   c*x + y -> c*(x + c^-1*y)  where y has fewer axes than x and a later constant cancels against c
//   x*(c*p) -> c*(x*p)         where p depends on parameters alone and c cancels against a constant of x
// Guard: values that depend on cotangents (the forward keeps its roundings); the scaled value has no other use, or all
// its uses cancel the constant; a constant does not move to a value with more axes, unless the other summand brings the
// same one along. Factors common to all summands are symbols; numbers move only where all have the same size.
// Why: in the adjoint of 2^x the ln2 belongs to every term alike and cancels against the log2e of the gate.
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {
void deferred_constant(KernelOp kernel, RewriteReport& report);
}  // namespace kdagen::kda
