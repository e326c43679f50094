// SPDX-License-Identifier: Apache-2.0
// Devices, contexts, memory, streams, events and modules over the driver API. All objects free themselves; those that
// need a context make the primary context of their device current for the call and restore the caller's afterwards.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/driver.h"

namespace kdagen::runtime {

/// Properties of the device that holds the data.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  std::string arch;            ///< "sm_90"
  int compute_capability = 0;  ///< 90
  int multiprocessors = 0;
  int shared_bytes_per_block = 0;  ///< with opt-in
  int shared_bytes_per_multiprocessor = 0;
  int registers_per_block = 0;
  int threads_per_multiprocessor = 0;
  int l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  bool has_memory_pools = false;
};

/// ToolchainError when there is no driver, UsageError when there is no such device.
DeviceInfo device_info(int ordinal);
std::vector<DeviceInfo> list_devices();

/// Makes the primary context of a device current until the end of the scope.
class ContextScope {
 public:
  explicit ContextScope(int ordinal);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  /// Differs between two lives of a device's primary context.
  std::uint64_t id() const { return id_; }

 private:
  std::uint64_t id_ = 0;
};

/// Lets the calling thread load modules while another thread captures a graph, until the end of the scope.
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope();
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED; afterwards what it was before
};

/// Whether work on the stream is recorded into a graph. Needs a current context.
bool is_capturing(CudaStream stream);

/// The device that owns a device pointer, or -1 for host memory that CUDA does not know.
int device_of_pointer(const void* pointer);

class Stream {
 public:
  /// A non-blocking stream.
  explicit Stream(int ordinal);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CudaStream get() const { return stream_; }
  void synchronize() const;

 private:
  int ordinal_;
  CudaStream stream_ = nullptr;
};

class Event {
 public:
  explicit Event(int ordinal);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(CudaStream stream);
  void synchronize() const;
  /// Milliseconds from `start` to this event, once both have passed.
  float elapsed_since(const Event& start) const;

 private:
  int ordinal_;
  CudaEvent event_ = nullptr;
};

/// Device memory, aligned to 256 bytes.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(int ordinal, std::int64_t bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();
  void* data() const { return reinterpret_cast<void*>(pointer_); }
  std::int64_t bytes() const { return bytes_; }
  int ordinal() const { return ordinal_; }
  /// Copies and fills return when they are done.
  void upload(const void* host, std::int64_t bytes, std::int64_t offset = 0);
  void download(void* host, std::int64_t bytes, std::int64_t offset = 0) const;
  void fill(std::uint8_t byte);

 private:
  int ordinal_ = -1;
  CudaPointer pointer_ = 0;
  std::int64_t bytes_ = 0;
};

/// What the driver says of a loaded entry.
struct FunctionAttributes {
  int registers = 0, local_bytes = 0, static_shared_bytes = 0, max_threads = 0;
  int blocks_per_multiprocessor = 0;  ///< at the block and dynamic shared memory of the last prepare()
};

struct LoadedFunction {
  CudaFunction handle = nullptr;
  FunctionAttributes attributes;
  /// Bytes of the argument struct, -1 when the driver cannot tell.
  std::int64_t parameter_bytes = -1;
};

/// A binary loaded into one context. Not freed at process end, when the driver may be gone already.
class LoadedModule {
 public:
  /// `image` is a cubin or null-terminated PTX. ToolchainError with the driver's log.
  LoadedModule(int ordinal, const std::string& image, const std::string& name);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;
  int ordinal() const { return ordinal_; }

  /// Looks the entry up and allows it `shared_bytes` of dynamic shared memory. UsageError naming what is too much
  /// (threads and registers, or shared memory) with both numbers.
  LoadedFunction prepare(const std::string& entry, int block, int shared_bytes);

 private:
  int ordinal_;
  std::uint64_t context_id_ = 0;
  std::string name_;
  CudaModule module_ = nullptr;
};

/// Enqueues `function` with one by-value argument of `words`.
void launch_kernel(const LoadedFunction& function, const std::array<std::uint32_t, 3>& grid, int block,
                   int shared_bytes, CudaStream stream, std::span<const std::uint64_t> words, const std::string& name);

/// Stream-ordered memory from a pool of this library's own, so that the caller's pool keeps its settings.
class StreamMemory {
 public:
  StreamMemory(int ordinal, std::int64_t bytes, CudaStream stream);
  ~StreamMemory();
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;
  void* data() const { return reinterpret_cast<void*>(pointer_); }

 private:
  CudaStream stream_;
  CudaPointer pointer_ = 0;
};
/// Makes the pool, which cannot be done inside a capture; no effect without pools.
void warm_up_stream_memory(int ordinal);

}  // namespace kdagen::runtime
