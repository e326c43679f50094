// SPDX-License-Identifier: Apache-2.0
// Joins values as early as possible: a value that waits in registers for a later phase should be one array, not two.
#pragma once
#include "codegen/schedule/kernel_ir.h"

namespace kdagen::schedule {

/// Moves an element-wise statement up to the last other use of its operands, across sums, moves and barriers, where
/// more arrays end with it than it begins: a*b, needed after a barrier, is made in front of it where nothing else needs
/// a and b behind. Same operations on the same numbers; only fewer registers are alive in between.
void join_early(Program& program);

}  // namespace kdagen::schedule
