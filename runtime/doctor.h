// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace kdagen::runtime {

struct DoctorCheck {
  std::string name;
  bool ok = false;
  std::string found;       ///< what is there, or why it cannot be used
  std::string how_to_get;  ///< empty when ok
};

/// What this machine has of: a host compiler (emulator, user's specs), nvcc, NVRTC, a driver, a device, a cache that
/// keeps. Never throws.
std::vector<DoctorCheck> examine_machine();

}  // namespace kdagen::runtime
