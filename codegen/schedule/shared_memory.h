// SPDX-License-Identifier: Apache-2.0
// Places buffers in shared memory and puts a barrier wherever two threads would otherwise race on one.
#pragma once
#include "codegen/schedule/kernel_ir.h"

namespace kdagen::schedule {

/// Floats a buffer takes.
int buffer_floats(const Buffer& buffer, const Tiling& tiling);
/// Buffers side by side; when that exceeds 48 KiB, buffers that are never alive together share their place.
void place_buffers(Program& program);
/// Walks the statements as they repeat (steps inside a tile, tiles inside a block) and inserts a barrier before each
/// statement that reads what was written, or writes what was read or written, since the last barrier.
void insert_barriers(Program& program);
/// Whether a statement writes (reads) its buffer.
bool writes_buffer(Kind kind);
bool reads_buffer(Kind kind);

}  // namespace kdagen::schedule
