// SPDX-License-Identifier: Apache-2.0
// An emitted text with its manifest, ready to be launched: on CUDA devices or in the emulator.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/binding.h"
#include "runtime/compile.h"
#include "runtime/device.h"
#include "runtime/manifest.h"
#include "runtime/problem.h"

namespace kdagen::runtime {

/// Memory of the caller's for one launch: at least Kernel::workspace_bytes, 256-byte aligned, untouched by others until
/// the launch is done. Null: the launch takes its own, in the order of the stream.
struct WorkspaceMemory {
  void* data = nullptr;
  std::int64_t bytes = 0;
};

struct LaunchOptions {
  CudaStream stream = nullptr;  ///< of the tensors' device; null is the legacy default stream
  WorkspaceMemory workspace;
  unsigned order_seed = 1;  ///< emulator: the order of threads and blocks; 0 is the natural one
};

/// A text compiled ahead of time: a cubin (or PTX, for newer devices).
struct PrebuiltBinary {
  std::string arch;  ///< "sm_90"; for PTX "compute_90"
  std::string image;
};

struct KernelOptions {
  std::optional<CompilerChoice> compiler;     ///< empty: NVRTC if it is there when first needed, else nvcc
  std::vector<PrebuiltBinary> binaries;       ///< CUDA: taken instead of compiling for devices they run on
  std::vector<std::string> compiler_options;  ///< further ones; part of the cache key
  bool emulator_check = true;                 ///< emulator: watch every access
  Cache* cache = nullptr;                     ///< null for Cache::shared()
};

/// Thread-safe; may be launched from several threads at once.
class Kernel {
 public:
  Kernel(std::string text, Manifest manifest, KernelOptions options);
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const std::string& text() const { return text_; }
  const Manifest& manifest() const { return manifest_; }
  const KernelOptions& options() const { return options_; }
  std::int64_t workspace_bytes(const Problem& problem) const;

  /// Checks everything (see bind_tensors), then enqueues the manifest's launches on the stream. Nothing is written when
  /// it throws UsageError. A problem without rows only zeroes the outputs. CUDA: no host synchronisation, no allocation
  /// outside the stream's order; may be captured once warm. Emulator: done on return; CheckError with the reports of a
  /// faulty text, outputs then untouched.
  virtual void launch(const std::vector<TensorRef>& tensors, const Problem& problem,
                      const LaunchOptions& options = {}) = 0;

  /// Compiles and loads for the device (ignored by the emulator), so that later launches can be captured.
  virtual void warm_up(int device_ordinal) = 0;

 protected:
  Cache& cache() const { return options_.cache ? *options_.cache : Cache::shared(); }

 private:
  std::string text_;
  Manifest manifest_;
  KernelOptions options_;
};

/// An entry as loaded on a device.
struct EntryReport {
  std::string entry;
  FunctionAttributes attributes;
  EntryResources resources;  ///< the assembler's numbers; zero when the driver finished PTX
};

class CudaKernel : public Kernel {
 public:
  using Kernel::Kernel;
  virtual std::vector<EntryReport> report(int device_ordinal) = 0;
  /// One more binary; no effect on what is loaded already. UsageError for an unknown arch.
  virtual void add_binary(PrebuiltBinary binary) = 0;
};

/// Compiled on first use for the device that holds the data, the variants for aligned tensors and for others apart, and
/// loaded once a device and context. A text emitted for a
/// newer architecture than the device's is refused there.
std::unique_ptr<CudaKernel> make_cuda_kernel(std::string text, Manifest manifest, KernelOptions options = {});

/// Tensors in host memory (device_ordinal -1). Of the target kdagen_emulated.
std::unique_ptr<Kernel> make_emulated_kernel(std::string text, Manifest manifest, KernelOptions options = {});

}  // namespace kdagen::runtime
