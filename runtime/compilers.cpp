// SPDX-License-Identifier: Apache-2.0
#include "runtime/compilers.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kdagen/error.h"
#include "runtime/cache.h"
#include "runtime/nvrtc.h"
#include "runtime/process.h"
#include "runtime/toolkit.h"
#include "runtime/trust.h"

#ifndef KDAGEN_CUDA_ROOT
#define KDAGEN_CUDA_ROOT ""
#endif

namespace kdagen::runtime {
namespace {

std::vector<std::filesystem::path> named_toolkits() {
  std::vector<std::filesystem::path> roots;
  for (const std::string& root : {environment_variable("CUDA_HOME"), environment_variable("CUDA_PATH"),
                                  std::string("/usr/local/cuda"), std::string(KDAGEN_CUDA_ROOT)}) {
    std::error_code ignored;
    if (root.empty() || root[0] != '/' || !std::filesystem::is_directory(root, ignored)) continue;
    // Known when kdagen was configured: on another machine this path may be anybody's.
    if (root == KDAGEN_CUDA_ROOT && !way_problem(root).empty()) continue;
    roots.emplace_back(root);
  }
  return roots;
}

std::optional<std::filesystem::path> locate_nvcc() {
  const std::string chosen = environment_variable("KDAGEN_NVCC");
  if (!chosen.empty()) return find_program(chosen);
  if (auto found = find_program("nvcc")) return found;
  for (const std::filesystem::path& root : named_toolkits())
    if (auto found = find_program((root / "bin" / "nvcc").string())) return found;
  return std::nullopt;
}

std::string output_of(const std::vector<std::string>& argv) {
  const TemporaryDirectory scratch({Cache::shared().directory().path});  // nvcc wants one even to list its targets
  const ProcessResult result = run_process(argv, {scratch.path(), compiler_environment(".")});
  if (result.exit_code != 0)
    throw ToolchainError(
        fmt::format("{} ends with exit code {}:\n{}", fmt::join(argv, " "), result.exit_code, result.output));
  return result.output;
}

Compiler find_nvcc() {
  const std::string chosen = environment_variable("KDAGEN_NVCC");
  const auto path = locate_nvcc();
  if (!path)
    throw ToolchainError(
        fmt::format("nvcc is not found{}. It comes with the CUDA toolkit (13.0) or the PyPI wheel nvidia-cuda-nvcc; "
                    "KDAGEN_NVCC names it",
                    chosen.empty() ? " in PATH, CUDA_HOME or /usr/local/cuda"
                                   : fmt::format(": KDAGEN_NVCC={} cannot be run", chosen)));
  Compiler compiler{CompilerChoice::nvcc, *path, "", {}};
  const std::string version = output_of({path->string(), "--version"});
  const std::size_t release = version.find(", V");
  if (release == std::string::npos)
    throw ToolchainError(fmt::format("{} does not say its version like nvcc:\n{}", path->string(), version));
  compiler.version = version.substr(release + 3, version.find_first_not_of("0123456789.", release + 3) - release - 3);
  std::istringstream lines(output_of({path->string(), "--list-gpu-arch"}));
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view prefix = "compute_";
    int number = 0;
    const char* begin = line.data() + prefix.size();
    if (line.starts_with(prefix) && std::from_chars(begin, line.data() + line.size(), number).ec == std::errc())
      compiler.archs.push_back(number);
  }
  return compiler;
}

Compiler find_nvrtc() {
  const NvrtcLibrary& library = nvrtc_library();
  return {CompilerChoice::nvrtc, library.path,
          fmt::format("{}.{} (build {})", library.major, library.minor, library.build.substr(0, 16)), library.archs};
}

Compiler find_host() {
  const std::string chosen = environment_variable("KDAGEN_HOST_CXX");
  std::vector<std::string> names{"g++", "c++", "clang++-19", "clang++"};
  if (!chosen.empty()) names = {chosen};
  for (const std::string& name : names) {
    const auto path = find_program(name);
    if (!path) continue;
    const std::string version = output_of({path->string(), "--version"});
    return {CompilerChoice::host, *path, version.substr(0, version.find('\n')), {}};
  }
  throw ToolchainError(
      fmt::format("no C++20 compiler is found for the emulator{}; install g++ 12 or clang 19, or name one by "
                  "KDAGEN_HOST_CXX",
                  chosen.empty() ? "" : fmt::format(": KDAGEN_HOST_CXX={} cannot be run", chosen)));
}

Compiler find_uncached(CompilerChoice choice) {
  Compiler compiler;
  switch (choice) {
    case CompilerChoice::nvrtc:
      compiler = find_nvrtc();
      break;
    case CompilerChoice::nvcc:
      compiler = find_nvcc();
      break;
    case CompilerChoice::host:
      compiler = find_host();
      break;
  }
  std::sort(compiler.archs.begin(), compiler.archs.end());
  return compiler;
}

std::string settings() {
  std::string all;
  for (const char* name : {"KDAGEN_NVRTC", "KDAGEN_NVCC", "KDAGEN_HOST_CXX", "PATH", "CUDA_HOME", "CUDA_PATH"})
    all += environment_variable(name) + '\n';
  return all;
}

}  // namespace

std::string_view name_of(CompilerChoice choice) {
  switch (choice) {
    case CompilerChoice::nvrtc:
      return "nvrtc";
    case CompilerChoice::nvcc:
      return "nvcc";
    case CompilerChoice::host:
      return "host";
  }
  throw KdagenBug("unknown compiler");
}

std::string Compiler::label() const {
  return choice == CompilerChoice::host ? version : fmt::format("{} {}", name_of(choice), version);
}

std::vector<std::filesystem::path> toolkit_folders() {
  std::vector<std::filesystem::path> roots = named_toolkits();
  std::error_code ignored;
  if (const auto nvcc = locate_nvcc())
    roots.insert(roots.begin(), std::filesystem::weakly_canonical(*nvcc, ignored).parent_path().parent_path());
  return roots;
}

Compiler find_compiler(CompilerChoice choice) {
  static auto* mutex = new std::mutex;
  static auto* found = new std::map<std::pair<CompilerChoice, std::string>, Compiler>;
  const std::lock_guard lock(*mutex);
  const std::pair key(choice, settings());
  const auto known = found->find(key);
  if (known != found->end()) return known->second;
  return found->emplace(key, find_uncached(choice)).first->second;
}

CompilerChoice default_cuda_compiler() {
  std::string reason;
  try {
    find_compiler(CompilerChoice::nvrtc);
    return CompilerChoice::nvrtc;
  } catch (const ToolchainError& error) {
    reason = error.what();
  }
  try {
    find_compiler(CompilerChoice::nvcc);
    return CompilerChoice::nvcc;
  } catch (const ToolchainError& error) {
    throw ToolchainError(reason + "\n" + error.what());
  }
}

Arch parse_arch(std::string_view text) {
  Arch arch;
  const std::string_view digits = text.starts_with("sm_") ? text.substr(3) : std::string_view();
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), arch.number);
  arch.suffix = std::string(end, digits.data() + digits.size());
  const bool known_suffix = arch.suffix.empty() || arch.suffix == "a" || arch.suffix == "f";
  if (error != std::errc() || digits[0] == '-' || digits[0] == '0' || !known_suffix || arch.number > 9999)
    throw UsageError(fmt::format("\"{}\" is no architecture; expected sm_80, sm_90, sm_100a, ...", text));
  if (arch.number < oldest_arch)
    throw UsageError(
        fmt::format("the architecture {} cannot be targeted: emitted text needs sm_{} or newer", text, oldest_arch));
  return arch;
}

CompileTarget choose_target(const Compiler& compiler, const Arch& arch, bool may_fall_back) {
  const auto knows = [&](int number) {
    return std::binary_search(compiler.archs.begin(), compiler.archs.end(), number);
  };
  if (knows(arch.number)) return {arch, false};
  if (may_fall_back) {
    int newest = 0;
    for (const int number : compiler.archs)
      if (number >= oldest_arch && number < arch.number) newest = number;
    if (newest) return {{newest, ""}, newest / 10 != arch.number / 10};
  }
  throw ToolchainError(fmt::format("{} cannot compile for {}: it knows sm_{}", compiler.label(), arch.sm(),
                                   fmt::join(compiler.archs, ", sm_")));
}

}  // namespace kdagen::runtime
