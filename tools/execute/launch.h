// SPDX-License-Identifier: Apache-2.0
// Launching a kernel on tensors in host memory.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "runtime/kernel.h"
#include "runtime/safetensors.h"

namespace kdagen {

using TensorBuffers = std::map<std::string, runtime::HostTensor>;

inline constexpr int on_emulator = -1;

/// What a caller is free to choose about its memory.
struct CallersMemory {
  runtime::OffsetType offsets = runtime::OffsetType::i32;  ///< of cu_seqlens, where there is one
  /// Every tensor starts so many bytes, rounded up to its element size, past an address aligned for any entry.
  int64_t base_offset = 0;
  bool shared = false;  ///< an output that may lie in the memory of the input it repeats does
  /// Not 0: tensors, but for parameters, are views with gaps between rows, tokens and heads, these in another order,
  /// both drawn from this number. Gaps are whole 16 bytes if it is even, so that entries for aligned tensors take them,
  /// else any elements. An input that repeats its elements along a dimension has the stride 0 there.
  uint64_t strides = 0;
};

/// Runs the kernel to its end, in place on the emulator (device_ordinal on_emulator), else on copies in a device's
/// memory. `tensors` holds inputs and outputs, the offsets of `problem` lie in host memory too. What outputs hold
/// before stays where the kernel does not write. Of `memory` all but the offsets' type counts. Errors of
/// Kernel::launch; CheckError when memory beside an output's elements was written.
void launch_on_host(runtime::Kernel& kernel, TensorBuffers& tensors, const runtime::Problem& problem,
                    int device_ordinal, runtime::LaunchOptions options = {}, const CallersMemory& memory = {});

}  // namespace kdagen
