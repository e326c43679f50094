// SPDX-License-Identifier: Apache-2.0
// Emitted text to a binary by one call, whatever the compiler; kept in the cache.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kdagen/error.h"
#include "runtime/cache.h"
#include "runtime/compilers.h"

namespace kdagen::runtime {

/// The compiler ran and refused the text. The message ends with the compiler's own.
class CompileError : public ToolchainError {
 public:
  using ToolchainError::ToolchainError;
};

struct CompileOptions {
  CompilerChoice compiler = CompilerChoice::nvrtc;  ///< nvrtc or nvcc; compile_host takes no notice
  std::string kernel = "text";  ///< named in messages, in the cache's list and as the file in diagnostics
  int standard = 17;            ///< C++17 or C++20; the emulator always takes C++20
  bool want_ptx = false;        ///< PTX instead of a cubin
  bool newer_device = false;  ///< an arch that the compiler does not know falls back to what runs on it (choose_target)
  bool emulator_check = true;      ///< compile_host: with the emulator's checks
  std::vector<std::string> extra;  ///< further options of the compiler; part of the key
};

/// What the assembler says of one entry.
struct EntryResources {
  std::string entry, arch;
  int registers = 0, stack_bytes = 0, spill_store_bytes = 0, spill_load_bytes = 0, shared_bytes = 0, barriers = 0;

  /// Moved between registers and memory for want of registers.
  int spilled_bytes() const { return spill_store_bytes + spill_load_bytes; }
};

struct CompiledText {
  std::string image;  ///< cubin, PTX, or the bytes of the emulator's shared object
  bool is_ptx = false;
  std::string target;                     ///< "sm_90", "compute_121", "host"
  std::string compiler;                   ///< Compiler::label
  std::vector<EntryResources> resources;  ///< empty for PTX and host
  std::string log;                        ///< warnings and the resource report
  std::filesystem::path file;             ///< of the image; empty when it is not on disk
  bool built = false;                     ///< false when it came from the cache
};

/// Compiles for `arch` ("sm_90"), by NVRTC or nvcc. Always without contraction of multiply and add.
/// UsageError for an arch that no text can target, ToolchainError when the compiler is missing or does not know the
/// arch, CompileError when it refuses the text.
CompiledText compile(const std::string& text, const std::string& arch, const CompileOptions& options,
                     Cache& cache = Cache::shared());

/// Everything the object depends on; what `compile` looks up.
CacheKey compile_key(const std::string& text, const std::string& arch, const CompileOptions& options);

/// Compiles for the emulator to a shared object, with `options.emulator_check`. Of the target kdagen_emulated.
CompiledText compile_host(const std::string& text, const CompileOptions& options, Cache& cache = Cache::shared());

/// The object of `key` in `cache`, or what `build` makes, as CompiledText: for the two functions above.
CompiledText cached_compile(Cache& cache, const CacheKey& key, const std::function<CompiledText()>& build);

/// The CompileError of a refused text.
[[noreturn]] void refuse_text(const CompileOptions& options, const std::string& compiler, const std::string& target,
                              const std::string& log);

/// The resource lines of `ptxas -v` or NVRTC's log, in the log's order.
std::vector<EntryResources> parse_resources(std::string_view log);

}  // namespace kdagen::runtime
