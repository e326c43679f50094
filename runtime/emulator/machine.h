// SPDX-License-Identifier: Apache-2.0
// The state of one run, which the functions called by compiled kernels find through their host thread.
#pragma once
#include "runtime/emulator/block.h"
#include "runtime/emulator/faults.h"
#include "runtime/emulator/memory.h"

namespace kdagen::emulator {

struct Machine {
  Machine(const Module& module, KernelFunction kernel, const void* words, Dim3 grid_dim, Dim3 block_dim,
          std::size_t dynamic_shared_bytes, const std::vector<Buffer>& buffers, const Options& options)
      : grid(grid_dim),
        check(options.check),
        faults(options.max_reports),
        memory(module, buffers, dynamic_shared_bytes, faults),
        block(kernel, words, block_dim, options.order_seed, options.check, memory, faults) {}

  Dim3 grid;
  bool check;
  FaultLog faults;
  Memory memory;
  Block block;
};

/// The run of this host thread, or null. Defined beside the hooks, so that linking a run links the hooks too.
Machine*& current_machine();

}  // namespace kdagen::emulator
