// SPDX-License-Identifier: Apache-2.0
// shared-exponential: one exponential a column instead of one an element.
//
//   2^(b-a) -> 2^b * 2^-a   where 2^-a is evaluated anyway        2^(a-b) -> 2^a * 2^-b   where 2^a is
// Guard: b has no rows (a total, a value a chunk), a has; -a (or a), b (or -b) and b-a are all proven to lie inside
// (-126, 126). Unproven, each difference stays one exponential of a subtracted argument.
// Forward and backward alike: the rule looks at the forward's values alone, and derive keeps every exponential it uses.
// Where the forward saves 2^b, the backward reads it.
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {
void shared_exponential(KernelOp kernel, const RewriteOptions& options, RewriteReport& report);
}  // namespace kdagen::kda
