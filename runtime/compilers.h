// SPDX-License-Identifier: Apache-2.0
// Finding the compilers that can take emitted text, and what they can compile for.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kdagen::runtime {

/// host: a C++20 compiler, for the emulator.
enum class CompilerChoice { nvrtc, nvcc, host };

std::string_view name_of(CompilerChoice choice);

struct Compiler {
  CompilerChoice choice = CompilerChoice::nvrtc;
  std::filesystem::path path;  ///< the program, or the library of NVRTC
  std::string version;         ///< "13.0 (build 5f0c...)", "13.0.88", "g++ (Debian 12.2.0-14) 12.2.0"
  std::vector<int> archs;      ///< compute capabilities it compiles for, ascending: 75 80 90 ...

  /// "nvcc 13.0.88": part of the cache key and of reports.
  std::string label() const;
};

/// Looks, in this order:
/// nvrtc: $KDAGEN_NVRTC alone if set, else libnvrtc.so.13, libnvrtc.so, beside nvcc, in the toolkit folders;
/// nvcc: $KDAGEN_NVCC alone if set, else PATH, the toolkit folders;
/// host: $KDAGEN_HOST_CXX alone if set, else g++, c++, clang++-19, clang++.
/// Toolkit folders: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda, the folder named when kdagen was configured
/// (KDAGEN_CUDA_ROOT). ToolchainError saying what was tried and how to get it. The answer is kept for the process.
Compiler find_compiler(CompilerChoice choice);

/// NVRTC if it is there, else nvcc; ToolchainError if neither.
CompilerChoice default_cuda_compiler();

/// A device architecture: "sm_90", "sm_90a" (features of that one device), "sm_100f" (of its family).
struct Arch {
  int number = 0;  ///< 90
  std::string suffix;

  std::string sm() const { return "sm_" + std::to_string(number) + suffix; }
  std::string compute() const { return "compute_" + std::to_string(number) + suffix; }
};
inline constexpr int oldest_arch = 80;  ///< the device prelude's conversions begin there

/// UsageError for what no text can target: other spellings, and anything older than sm_80.
Arch parse_arch(std::string_view text);

struct CompileTarget {
  Arch arch;
  bool ptx = false;  ///< to be finished by the driver
};
/// The target itself when `compiler` knows it; else, if `may_fall_back`, the newest known one whose cubin (same major
/// number) or PTX runs on it; else ToolchainError naming the arch, the compiler, its version and its list.
CompileTarget choose_target(const Compiler& compiler, const Arch& arch, bool may_fall_back);

}  // namespace kdagen::runtime
