// SPDX-License-Identifier: Apache-2.0
// identities: exact simplifications, of forward and backward values alike.
//
//   x*1 -> x    x+0, x-0 -> x    0-x -> -x    -(-x) -> x    x*-1 -> -x    c*x -> x*c    c1*c2 -> one constant
//   x + -y -> x-y    -x + y -> y-x    x - -y -> x+y    -x * -y -> x*y    -(x-y) -> y-x
//   2^0, e^0 -> 1    x^1 -> x    x^2, x^3, x^4 -> products    x/c -> x*(1/c) if c is symbolic or a power of two
//   select(c, x, x) -> x    a broadcast that adds no axis, or stands on another -> one
// Guard: none of them changes a bit of a result (a zero's sign apart), except x/c by a symbolic constant and x^n, which
// are rounded in another place but for forward and backward alike. x*0 stays (x may be infinite), constants multiplied
// to a value one after another stay (each rounds).
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {
void identities(KernelOp kernel, RewriteReport& report);
}  // namespace kdagen::kda
