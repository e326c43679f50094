// SPDX-License-Identifier: Apache-2.0
// difference-of-sums: the sum of the rows behind a row is formed as such, not as what is left of the total.
//
//   total(x) - cumsum(x) -> exclusive suffix sum of x      total(x) - exclusive cumsum(x) -> suffix sum of x
//   and mirrored for suffix sums; cumsum(x) - total(x) is the negative of the same
// Guard: x is the forward's own value and has no proven bound, and neither sum is saved (a backward that reads one
// could not form the other). A backward does what its forward does. complement-scan is the same for sums of gradients.
//
// Why: behind a gate of -1000 the difference is known to 2^-14, behind one of -1e8 the gates that follow it are lost,
// and behind an infinite one it is inf - inf. Where gates are bounded, sums are small or integers (fixed-point-scan),
// and a difference is cheaper: 2^total serves the whole column (shared-exponential).
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {
void difference_of_sums(KernelOp kernel, const RewriteOptions& options, RewriteReport& report);
}  // namespace kdagen::kda
