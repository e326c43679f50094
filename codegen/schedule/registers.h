// SPDX-License-Identifier: Apache-2.0
// How many registers a thread needs at least, from the lives of its values: what decides how many blocks may share a
// multiprocessor before the compiler spills.
#pragma once
#include "codegen/schedule/kernel_ir.h"

namespace kdagen::schedule {

/// What a statement reads from registers, in its own map, and what it leaves there (nothing: null).
llvm::SmallVector<mlir::Value> register_reads(const Statement& s);
mlir::Value register_result(const Statement& s);

/// The most values that are alive at once between two statements of a tile, in registers of a thread (8 for an array).
/// Addresses, masks and what the compiler keeps besides are not in it.
int live_registers(const Program& program);

/// Blocks (1 to 8) that can share a multiprocessor without spilling, as far as this count can tell.
int most_resident_blocks(const Program& program);

}  // namespace kdagen::schedule
