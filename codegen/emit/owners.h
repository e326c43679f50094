// SPDX-License-Identifier: Apache-2.0
// What is done by a thread a row, in front of the tiles of a block.
#pragma once
#include <set>
#include <string>

#include "codegen/emit/names.h"
#include "codegen/emit/writer.h"
#include "codegen/schedule/kernel_ir.h"

namespace kdagen::emit {

/// Prints Program::owner_statements in a loop over the block's tiles, as many at a time as have a thread for each row,
/// and their parts of the parameter sums. `begin` and `end` are the block's tiles.
void print_owners(Writer& out, const schedule::Program& program, const Names& names, std::set<std::string>& helpers);

}  // namespace kdagen::emit
