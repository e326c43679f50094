// SPDX-License-Identifier: Apache-2.0
// Puts a barrier wherever two threads would otherwise race on a buffer in shared memory.
#pragma once
#include "codegen/schedule/kernel_ir.h"

namespace kdagen::schedule {

/// Floats a buffer takes.
int buffer_floats(const Buffer& buffer, const Tiling& tiling);
/// Whether each thread reads from one buffer just the elements that it writes to the other, where both lie at one
/// place.
bool own_elements(const Program& program, const Statement& read, const Statement& write);
/// Walks the statements as they repeat (steps inside a tile, tiles inside a block) and inserts a barrier before each
/// statement that reads what was written, or writes what was read or written, since the last barrier.
void insert_barriers(Program& program);
/// Whether a statement writes (reads) its buffer.
bool writes_buffer(Kind kind);
bool reads_buffer(Kind kind);

}  // namespace kdagen::schedule
