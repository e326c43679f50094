// SPDX-License-Identifier: Apache-2.0
// Launching a kernel on tensors in host memory.
#pragma once
#include <map>
#include <string>

#include "runtime/kernel.h"
#include "runtime/safetensors.h"

namespace kdagen {

using TensorBuffers = std::map<std::string, runtime::HostTensor>;

inline constexpr int on_emulator = -1;

/// Where the first element of each tensor lies: at an aligned address, or one element past it (entries for any alignment).
enum class Placement { aligned, shifted };

/// Runs the kernel to its end, in place on the emulator (device_ordinal on_emulator), else on copies in a device's
/// memory. `tensors` holds inputs and outputs, the offsets of `problem` lie in host memory too. What outputs hold
/// before stays where the kernel does not write. Shifted, copies run on the emulator too. Errors of Kernel::launch.
void launch_on_host(runtime::Kernel& kernel, TensorBuffers& tensors, const runtime::Problem& problem, int device_ordinal,
                    runtime::LaunchOptions options = {}, Placement placement = Placement::aligned);

}  // namespace kdagen
