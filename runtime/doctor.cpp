// SPDX-License-Identifier: Apache-2.0
#include "runtime/doctor.h"

#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kdagen/error.h"
#include "runtime/cache.h"
#include "runtime/compilers.h"
#include "runtime/device.h"

namespace kdagen::runtime {
namespace {

DoctorCheck examine(const std::string& name, const std::string& how_to_get, const std::function<std::string()>& look) {
  try {
    return {name, true, look(), ""};
  } catch (const std::exception& error) {
    return {name, false, error.what(), how_to_get};
  }
}

std::string compiler_found(CompilerChoice choice) {
  const Compiler compiler = find_compiler(choice);
  std::string text = fmt::format("{} ({})", compiler.label(), compiler.path.string());
  if (!compiler.archs.empty()) text += fmt::format(", compiles for sm_{}", fmt::join(compiler.archs, " sm_"));
  return text;
}

std::string driver_found() {
  const DriverStatus& status = driver_status();
  if (!status.ok) throw ToolchainError(status.reason);
  return fmt::format("{}, CUDA {}.{}", status.library, status.version / 1000, status.version % 1000 / 10);
}

std::string devices_found() {
  std::vector<std::string> devices;
  for (const DeviceInfo& device : list_devices())
    devices.push_back(fmt::format("{}: {} ({}, {} multiprocessors, {:.1f} GiB)", device.ordinal, device.name,
                                  device.arch, device.multiprocessors,
                                  static_cast<double>(device.memory_bytes) / (1 << 30)));
  return fmt::format("{}", fmt::join(devices, "; "));
}

std::string cache_found() {
  const CacheDirectory& directory = Cache::shared().directory();
  if (!directory.persistent) throw ToolchainError(directory.problem);
  return fmt::format("{} (named by {})", directory.path.string(), directory.origin);
}

}  // namespace

std::vector<DoctorCheck> examine_machine() {
  return {examine("host compiler", "apt-get install g++, or set KDAGEN_HOST_CXX to a C++20 compiler",
                  [] { return compiler_found(CompilerChoice::host); }),
          examine("nvcc", "install the CUDA 13.0 toolkit or the PyPI wheel nvidia-cuda-nvcc, or set KDAGEN_NVCC",
                  [] { return compiler_found(CompilerChoice::nvcc); }),
          examine("nvrtc", "install the CUDA 13.0 toolkit or the PyPI wheel nvidia-cuda-nvrtc, or set KDAGEN_NVRTC",
                  [] { return compiler_found(CompilerChoice::nvrtc); }),
          examine("driver", "install NVIDIA's driver (580 or later for CUDA 13), or set KDAGEN_LIBCUDA", driver_found),
          examine("device", "use a machine with an NVIDIA GPU of compute capability 8.0 or later", devices_found),
          examine("cache", "set KDAGEN_CACHE_DIR to a folder of your own", cache_found)};
}

}  // namespace kdagen::runtime
