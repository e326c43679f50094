// SPDX-License-Identifier: Apache-2.0
// Operands that travel to shared memory ahead of the tile that reads them: plain loads do not keep enough bytes in
// flight to fill the memory's bandwidth, copies of whole tiles do: by the copy engine (sm_90 and later, tensor maps) or
// by the threads, which do not wait for them (cp.async).
#pragma once
#include "codegen/schedule/kernel_ir.h"

namespace kdagen::schedule {

struct StagingLimits {
  bool engine = false;      // the architecture has a copy engine (sm_90 and later)
  int block_bytes = 0;      // shared memory that a block may have
  int processor_bytes = 0;  // ... and all blocks of a multiprocessor together, 1 KiB a block included
};

/// Chooses which inputs are staged and in how many slots (`stages` < 0: as many as fit beside the wished residency),
/// lays out the slots behind the buffers, and places the Restage statement behind the first barrier after the last read
/// of an operand. `stages` 0 leaves plain loads. UsageError when the slots asked for do not fit.
void stage_operands(Program& program, int stages, bool choose_blocks, const StagingLimits& limits);

}  // namespace kdagen::schedule
