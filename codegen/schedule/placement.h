// SPDX-License-Identifier: Apache-2.0
// Where the buffers of a block lie in shared memory. What a block needs decides how many blocks share a multiprocessor.
#pragma once
#include "codegen/schedule/kernel_ir.h"

namespace kdagen::schedule {

/// Gives every buffer its offset, and the program its `shared_floats`. Buffers share a place
/// - where a barrier that is needed anyway parts the last access to one from the first to the other, or
/// - where every thread reads its elements of one for the last time and then writes the same elements of the other;
/// neither takes a further barrier. Beyond 48 KiB, also where it does.
void place_buffers(Program& program);

}  // namespace kdagen::schedule
