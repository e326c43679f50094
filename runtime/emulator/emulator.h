// SPDX-License-Identifier: Apache-2.0
// Runs emitted kernels on the CPU: every thread of a block is a fiber, blocks run one after the other. In check mode
// each memory access of the kernel is compared with a record of who touched the place before, so that races, reads of
// unwritten memory, accesses outside the buffers, misaligned vectors and divergent barriers become reports instead of
// wrong numbers. It is a model of the CUDA programming rules, not of a GPU: no timing, no memory model beyond barriers.
//
// Programs that use it link kdagen_emulator, which also exports the functions that compiled kernels call back.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kdagen::emulator {

/// Global memory that a kernel may touch. Buffers must not overlap: register an allocation once, not its views. Running
/// out of one buffer is only noticed if it does not end inside another: allocate_guarded keeps them apart.
struct Buffer {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::string name;         ///< as it shall appear in reports
  bool initialised = true;  ///< false: reading a byte that no thread wrote is a fault
  bool writable = true;     ///< false: writing is a fault
};

/// Zeroed memory, page-aligned, with a megabyte of unusable addresses on both sides.
std::shared_ptr<void> allocate_guarded(std::size_t bytes);

struct Options {
  bool check = true;         ///< needs a module compiled with check; false: only barriers and shuffles are judged
  unsigned order_seed = 0;   ///< 0: threads and blocks in natural order; else a random order drawn from the seed
  unsigned max_reports = 8;  ///< the run stops after so many
};

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

/// The command (argv) that compiles emitted text to a shared object. `cxx`: g++ 12 or clang 14 and later;
/// `include_dir` holds kdagen/device.cuh and kdagen/emulator.h; `check` adds the instrumentation that Options::check
/// needs.
std::vector<std::string> host_compile_command(const std::string& cxx, const std::string& source_path,
                                              const std::string& include_dir, const std::string& output_path,
                                              bool check);

/// Runs host_compile_command; throws ToolchainError with the compiler's log.
void host_compile(const std::string& cxx, const std::string& source_path, const std::string& include_dir,
                  const std::string& output_path, bool check);

/// A loaded shared object of host-compiled kernels. Loading the same path twice gives the same code, even if the file
/// has changed in between: give every text its own path.
class Module {
 public:
  /// Throws ToolchainError if the object can't be loaded.
  explicit Module(const std::string& shared_object_path);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The address of `void NAME_invoke(const void* words)`; throws UsageError if there is no KD_ENTRY(name, ...).
  void* entry(const std::string& name) const;
  /// How many 8-byte argument words the entry takes.
  std::size_t argument_words(const std::string& name) const;
  /// Whether it was compiled with `check`.
  bool instrumented() const;

  const std::string& path() const { return path_; }
  /// First and one-past-last address of the loaded object.
  std::pair<std::uintptr_t, std::uintptr_t> image() const { return image_; }

 private:
  void* symbol(const std::string& name) const;

  std::string path_;
  void* handle_;
  std::pair<std::uintptr_t, std::uintptr_t> image_;
};

/// What a kernel's TensorMap holds here: four dimensions, innermost first, with `extents` elements; `strides` in bytes
/// of all but the first; a box of box[0] columns and box[1] rows.
struct TensorMap {
  std::uint64_t base, element_bytes;
  std::uint64_t extents[4], strides[3], box[2];
};

/// Runs `entry` over the grid with one by-value argument struct of `word_count` 8-byte words and returns the reports
/// (empty: clean). Lines in reports are lines of the compiled text. After a fault that would corrupt memory (out of
/// bounds, read-only, misaligned), a deadlock or `max_reports` reports the run stops, and outputs are incomplete.
/// One run per host thread at a time; two host threads may run different buffers.
/// Throws UsageError for an unknown entry, a wrong word count, a block of more than 1024 threads, overlapping buffers,
/// or check asked of a module compiled without it.
std::vector<std::string> run(const Module& module, const std::string& entry, Dim3 grid, Dim3 block,
                             std::size_t dynamic_shared_bytes, const void* argument_words, std::size_t word_count,
                             const std::vector<Buffer>& buffers, const Options& options);

}  // namespace kdagen::emulator
