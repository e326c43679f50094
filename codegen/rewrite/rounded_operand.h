// SPDX-License-Identifier: Apache-2.0
// rounded-operand: the cotangent of an exponent is formed from the number that the consumer multiplied by.
//
//   an output y = c*x*2^{+-G} (with any other factors) that is stored narrower than f32:
//     its contribution +-ln2*y*dy to the cotangent of +-G  ->  +-ln2*round(y)*dy
//   round(y): the forward's own expression in f32, in its own order, then one rounding to the storage type.
// Guard: RewriteOptions::rounded_operands; the storage is narrower than f32; the term holds all factors of y and
// nothing else but dy, a sign and the ln2 of 2^x (e^x: no constant); a broadcast of y is outside of round(y). The
// cotangents of x and of other factors stay as they are. Why: the pairs that cancel along the rows cancel in the
// consumer's numbers, which are the rounded ones. This changes the function on purpose (straight-through), so it is
// judged apart from the other rewrites.
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {
void rounded_operand(KernelOp kernel, const RewriteOptions& options, RewriteReport& report);
}  // namespace kdagen::kda
