// SPDX-License-Identifier: Apache-2.0
// complement-scan and suffix-sum: sums along the rows are formed in the direction in which they are needed.
//
//   total(u) - scan(u)                    -> the complementary scan of u:
//     total - suffix sum = exclusive prefix sum      total - exclusive suffix sum = prefix sum     (and mirrored)
//   c*total(u) + c*scan(x - u)            -> c*scan(x) + c*complement(u)
//   scan(x + at_last(b)), suffix sum      -> scan(x) + b in every row
//   c*scan(x) + c*scan(y), same direction -> c*scan(x + y)
// Guard: backward values; the total is kda.sum over the row axis alone, and the summand u stands in the scan's operand
// with the opposite sign and size; factors with rows in front of total and scan are the same.
// Why: total - suffix sum cancels, and the terms that belong to no row of the prefix leave their rounding behind.
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {
void complement_scan(KernelOp kernel, RewriteReport& report);
}  // namespace kdagen::kda
