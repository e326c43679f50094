// SPDX-License-Identifier: Apache-2.0
// What a call costs the host, beside the bare launches of the same entries; and what the first call costs.
#pragma once
#include "runtime/kernel.h"

namespace kdagen {

struct LaunchCost {
  int launches = 0;     ///< a call makes
  double call_us = 0;   ///< of Kernel::launch with a workspace and the tensors of an earlier call: host's time, median
  double fresh_us = 0;  ///< of Kernel::launch with tensors that no kept call has: checked and laid out anew
  double plain_us = 0;  ///< of as many cuLaunchKernel with the same entries, grids and arguments

  double load_ms = 0;  ///< of the first call: the object from the cache, into the device, launched

  double overhead_us() const { return call_us - plain_us; }
};

/// Measures on one tile, so that the device keeps up. ToolchainError without a device.
LaunchCost launch_cost(runtime::CudaKernel& kernel, int device_ordinal);

}  // namespace kdagen
