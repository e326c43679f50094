// SPDX-License-Identifier: Apache-2.0
// The part of device.h that loads and launches.
#include <mutex>

#include <fmt/format.h>

#include "runtime/device.h"

namespace kdagen::runtime {
namespace {

// CU_FUNC_ATTRIBUTE_*
enum FunctionAttribute {
  max_threads_per_block = 0,
  static_shared = 1,
  local_size = 3,
  register_count = 4,
  max_dynamic_shared = 8
};
// CU_JIT_*
enum JitOption { info_log = 3, info_log_bytes = 4, error_log = 5, error_log_bytes = 6 };

struct PoolProperties {     // CUmemPoolProps
  int allocation_type = 1;  // pinned
  int handle_types = 0;
  int location_type = 1;  // device
  int location_id = 0;
  void* security = nullptr;
  std::size_t max_bytes = 0;
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};
static_assert(sizeof(PoolProperties) == 88);

CudaMemoryPool memory_pool(int ordinal) {
  static auto* mutex = new std::mutex;
  static auto* pools = new std::map<std::uint64_t, CudaMemoryPool>;
  const ContextScope scope(ordinal);
  const std::lock_guard lock(*mutex);
  CudaMemoryPool& pool = (*pools)[scope.id()];
  if (pool) return pool;
  if (!device_info(ordinal).has_memory_pools)
    throw ToolchainError(fmt::format("device {} has no stream-ordered memory: hand over a workspace", ordinal));
  PoolProperties properties;
  properties.location_id = ordinal;
  check_driver(driver().MemPoolCreate(&pool, &properties), "create a memory pool");
  // With the default of 0 every synchronisation would give the memory back and the next call fetch it again.
  constexpr int release_threshold = 4;
  std::uint64_t keep_bytes = 256 << 20;
  check_driver(driver().MemPoolSetAttribute(pool, release_threshold, &keep_bytes), "set up a memory pool");
  return pool;
}

}  // namespace

LoadedModule::LoadedModule(int ordinal, const std::string& image, const std::string& name)
    : ordinal_(ordinal), name_(name) {
  const ContextScope scope(ordinal);
  const RelaxedCaptureScope relaxed;
  context_id_ = scope.id();
  std::string errors(8192, '\0'), notes(8192, '\0');
  int options[] = {error_log, error_log_bytes, info_log, info_log_bytes};
  const auto as_value = [](std::size_t n) { return reinterpret_cast<void*>(n); };
  void* values[] = {errors.data(), as_value(errors.size()), notes.data(), as_value(notes.size())};
  const CudaResult result = driver().ModuleLoadDataEx(&module_, image.c_str(), 4, options, values);
  if (result == cuda_success) return;
  const std::string log = errors.substr(0, errors.find('\0'));
  check_driver(result, fmt::format("load {} on device {} ({}){}{}", name, ordinal, device_info(ordinal).arch,
                                   log.empty() ? "" : "; the driver says: ", log));
}

LoadedModule::~LoadedModule() {
  quietly([&] {
    if (!module_) return;
    const ContextScope scope(ordinal_);
    if (scope.id() == context_id_) driver().ModuleUnload(module_);  // else it went with its context
  });
}

LoadedFunction LoadedModule::prepare(const std::string& entry, int block, int shared_bytes) {
  const ContextScope scope(ordinal_);
  const DriverFunctions& cuda = driver();
  const DeviceInfo device = device_info(ordinal_);
  LoadedFunction function;
  const CudaResult found = cuda.ModuleGetFunction(&function.handle, module_, entry.c_str());
  if (found == 500) throw UsageError(fmt::format("the text of {} has no entry \"{}\"", name_, entry));
  check_driver(found, fmt::format("find the entry {}", entry));
  const auto attribute = [&](FunctionAttribute which) {
    int value = 0;
    check_driver(cuda.FuncGetAttribute(&value, which, function.handle), "ask for an attribute of an entry");
    return value;
  };
  function.attributes = {attribute(register_count), attribute(local_size), attribute(static_shared),
                         attribute(max_threads_per_block), 0};
  if (block > function.attributes.max_threads)
    throw UsageError(fmt::format(
        "{} has blocks of {} threads, but with {} registers a thread and its launch bounds at most {} fit on device {} "
        "({})",
        entry, block, function.attributes.registers, function.attributes.max_threads, ordinal_, device.name));
  const int total_shared = function.attributes.static_shared_bytes + shared_bytes;
  if (total_shared > device.shared_bytes_per_block)
    throw UsageError(fmt::format("{} needs {} bytes of shared memory a block; device {} ({}) has {}", entry,
                                 total_shared, ordinal_, device.name, device.shared_bytes_per_block));
  constexpr int without_opt_in = 48 << 10;
  if (total_shared > without_opt_in)
    check_driver(cuda.FuncSetAttribute(function.handle, max_dynamic_shared, shared_bytes),
                 fmt::format("allow {} its {} bytes of shared memory", entry, total_shared));
  check_driver(cuda.OccupancyMaxActiveBlocksPerMultiprocessor(&function.attributes.blocks_per_multiprocessor,
                                                              function.handle, block, shared_bytes),
               "ask for an entry's occupancy");
  std::size_t offset = 0, bytes = 0;
  if (cuda.FuncGetParamInfo && cuda.FuncGetParamInfo(function.handle, 0, &offset, &bytes) == cuda_success)
    function.parameter_bytes = static_cast<std::int64_t>(bytes);
  return function;
}

void launch_kernel(const LoadedFunction& function, const std::array<std::uint32_t, 3>& grid, int block,
                   int shared_bytes, CudaStream stream, std::span<const std::uint64_t> words, const std::string& name) {
  void* parameters[] = {const_cast<std::uint64_t*>(words.data())};
  check_driver(driver().LaunchKernel(function.handle, grid[0], grid[1], grid[2], block, 1, 1, shared_bytes, stream,
                                     parameters, nullptr),
               [&] {
                 return fmt::format("launch {} with {} x {} x {} blocks of {} threads", name, grid[0], grid[1], grid[2],
                                    block);
               });
}

StreamMemory::StreamMemory(int ordinal, std::int64_t bytes, CudaStream stream) : stream_(stream) {
  if (bytes == 0) return;
  check_driver(driver().MemAllocFromPoolAsync(&pointer_, static_cast<std::size_t>(bytes), memory_pool(ordinal), stream),
               [&] { return fmt::format("allocate a workspace of {} bytes", bytes); });
}

StreamMemory::~StreamMemory() {
  if (pointer_) quietly([&] { driver().MemFreeAsync(pointer_, stream_); });
}

void warm_up_stream_memory(int ordinal) {
  if (device_info(ordinal).has_memory_pools) memory_pool(ordinal);
}

}  // namespace kdagen::runtime
