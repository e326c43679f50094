// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

#include <mutex>

#include <fmt/format.h>

namespace kdagen::runtime {
namespace {

// CU_DEVICE_ATTRIBUTE_*
enum DeviceAttribute {
  registers_per_block = 12,
  multiprocessor_count = 16,
  l2_cache_size = 38,
  threads_per_multiprocessor = 39,
  capability_major = 75,
  capability_minor = 76,
  shared_per_multiprocessor = 81,
  shared_per_block_optin = 97,
  memory_pools_supported = 115
};

DeviceInfo query_device(int ordinal) {
  const DriverFunctions& cuda = driver();
  CudaDevice device;
  check_driver(cuda.DeviceGet(&device, ordinal), fmt::format("find device {}", ordinal));
  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    check_driver(cuda.DeviceGetAttribute(&value, which, device), "ask for a device attribute");
    return value;
  };
  char name[256] = "";
  std::size_t memory = 0;
  check_driver(cuda.DeviceGetName(name, sizeof name, device), "ask for the device's name");
  check_driver(cuda.DeviceTotalMem(&memory, device), "ask for the device's memory");
  DeviceInfo info;
  info.ordinal = ordinal;
  info.name = name;
  info.compute_capability = attribute(capability_major) * 10 + attribute(capability_minor);
  info.arch = fmt::format("sm_{}", info.compute_capability);
  info.multiprocessors = attribute(multiprocessor_count);
  info.shared_bytes_per_block = attribute(shared_per_block_optin);
  info.shared_bytes_per_multiprocessor = attribute(shared_per_multiprocessor);
  info.registers_per_block = attribute(registers_per_block);
  info.threads_per_multiprocessor = attribute(threads_per_multiprocessor);
  info.l2_bytes = attribute(l2_cache_size);
  info.memory_bytes = static_cast<std::int64_t>(memory);
  info.has_memory_pools = attribute(memory_pools_supported) != 0;
  return info;
}

// Held until the process ends: releasing a primary context may destroy what the caller still uses.
class PrimaryContexts {
 public:
  CudaContext get(int ordinal, bool again = false) {
    const std::lock_guard lock(mutex_);
    CudaContext& context = contexts_[ordinal];
    if (context && !again) return context;
    CudaDevice device;
    check_driver(driver().DeviceGet(&device, ordinal), fmt::format("find device {}", ordinal));
    check_driver(driver().DevicePrimaryCtxRetain(&context, device), fmt::format("open device {}", ordinal));
    return context;
  }

 private:
  std::mutex mutex_;
  std::map<int, CudaContext> contexts_;
};

PrimaryContexts& primary_contexts() {
  static auto* contexts = new PrimaryContexts;
  return *contexts;
}

}  // namespace

DeviceInfo device_info(int ordinal) {
  static auto* mutex = new std::mutex;
  static auto* known = new std::map<int, DeviceInfo>;
  driver();
  const int count = driver_status().device_count;
  if (ordinal < 0 || ordinal >= count)
    throw UsageError(fmt::format("there is no device {}; the driver sees {}, numbered from 0", ordinal, count));
  const std::lock_guard lock(*mutex);
  const auto found = known->find(ordinal);
  if (found != known->end()) return found->second;
  return known->emplace(ordinal, query_device(ordinal)).first->second;
}

std::vector<DeviceInfo> list_devices() {
  driver();
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < driver_status().device_count; ++i) devices.push_back(device_info(i));
  return devices;
}

ContextScope::ContextScope(int ordinal) {
  const DriverFunctions& cuda = driver();
  CudaContext context = primary_contexts().get(ordinal);
  CudaResult result = cuda.CtxPushCurrent(context);
  if (result == 201 || result == 709) {  // somebody reset the device: its primary context starts a new life
    context = primary_contexts().get(ordinal, true);
    result = cuda.CtxPushCurrent(context);
  }
  check_driver(result, [&] { return fmt::format("switch to device {}", ordinal); });
  unsigned long long id = 0;
  if (cuda.CtxGetId && cuda.CtxGetId(context, &id) == cuda_success)
    id_ = id;
  else
    id_ = reinterpret_cast<std::uintptr_t>(context);
}

ContextScope::~ContextScope() {
  quietly([] {
    CudaContext popped;
    driver().CtxPopCurrent(&popped);
  });
}

RelaxedCaptureScope::RelaxedCaptureScope() {
  if (driver().ThreadExchangeStreamCaptureMode) driver().ThreadExchangeStreamCaptureMode(&mode_);
}

RelaxedCaptureScope::~RelaxedCaptureScope() {
  quietly([&] {
    if (driver().ThreadExchangeStreamCaptureMode) driver().ThreadExchangeStreamCaptureMode(&mode_);
  });
}

bool is_capturing(CudaStream stream) {
  int status = 0;
  const CudaResult result = driver().StreamIsCapturing(stream, &status);
  if (result == cuda_capture_implicit) return true;  // the legacy stream, while another one is captured
  check_driver(result, "ask whether a stream is being captured");
  return status != 0;
}

int device_of_pointer(const void* pointer) {
  constexpr int memory_type = 2, device_ordinal = 9, type_device = 2;
  const auto address = static_cast<CudaPointer>(reinterpret_cast<std::uintptr_t>(pointer));
  int type = 0, ordinal = -1;
  if (driver().PointerGetAttribute(&type, memory_type, address) != cuda_success || type != type_device) return -1;
  if (driver().PointerGetAttribute(&ordinal, device_ordinal, address) != cuda_success) return -1;
  return ordinal;
}

Stream::Stream(int ordinal) : ordinal_(ordinal) {
  constexpr unsigned non_blocking = 1;
  const ContextScope scope(ordinal);
  check_driver(driver().StreamCreate(&stream_, non_blocking), "create a stream");
}

Stream::~Stream() {
  quietly([&] {
    const ContextScope scope(ordinal_);
    driver().StreamDestroy(stream_);
  });
}

void Stream::synchronize() const {
  const ContextScope scope(ordinal_);
  check_driver(driver().StreamSynchronize(stream_), "finish the work on a stream");
}

Event::Event(int ordinal) : ordinal_(ordinal) {
  const ContextScope scope(ordinal);
  check_driver(driver().EventCreate(&event_, 0), "create an event");
}

Event::~Event() {
  quietly([&] {
    const ContextScope scope(ordinal_);
    driver().EventDestroy(event_);
  });
}

void Event::record(CudaStream stream) {
  const ContextScope scope(ordinal_);
  check_driver(driver().EventRecord(event_, stream), "record an event");
}

void Event::synchronize() const {
  const ContextScope scope(ordinal_);
  check_driver(driver().EventSynchronize(event_), "wait for an event");
}

float Event::elapsed_since(const Event& start) const {
  const ContextScope scope(ordinal_);
  float milliseconds = 0;
  check_driver(driver().EventElapsedTime(&milliseconds, start.event_, event_), "measure between two events");
  return milliseconds;
}

DeviceBuffer::DeviceBuffer(int ordinal, std::int64_t bytes) : ordinal_(ordinal), bytes_(bytes) {
  if (bytes < 0) throw UsageError(fmt::format("cannot allocate {} bytes", bytes));
  if (bytes == 0) return;
  const ContextScope scope(ordinal);
  check_driver(driver().MemAlloc(&pointer_, static_cast<std::size_t>(bytes)), fmt::format("allocate {} bytes", bytes));
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(ordinal_, other.ordinal_);
  std::swap(pointer_, other.pointer_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  quietly([&] {
    if (!pointer_) return;
    const ContextScope scope(ordinal_);
    driver().MemFree(pointer_);
  });
}

namespace {
void check_range(std::int64_t bytes, std::int64_t offset, std::int64_t capacity) {
  if (bytes < 0 || offset < 0 || offset > capacity || bytes > capacity - offset)
    throw KdagenBug(fmt::format("{} bytes at {} of a device buffer of {}", bytes, offset, capacity));
}
}  // namespace

void DeviceBuffer::upload(const void* host, std::int64_t bytes, std::int64_t offset) {
  check_range(bytes, offset, bytes_);
  if (bytes == 0) return;
  const ContextScope scope(ordinal_);
  check_driver(driver().MemcpyHtoDAsync(pointer_ + offset, host, bytes, nullptr), "copy to the device");
  check_driver(driver().StreamSynchronize(nullptr), "copy to the device");
}

void DeviceBuffer::download(void* host, std::int64_t bytes, std::int64_t offset) const {
  check_range(bytes, offset, bytes_);
  if (bytes == 0) return;
  const ContextScope scope(ordinal_);
  check_driver(driver().MemcpyDtoHAsync(host, pointer_ + offset, bytes, nullptr), "copy from the device");
  check_driver(driver().StreamSynchronize(nullptr), "copy from the device");
}

void DeviceBuffer::fill(std::uint8_t byte) {
  if (bytes_ == 0) return;
  const ContextScope scope(ordinal_);
  check_driver(driver().MemsetD8Async(pointer_, byte, bytes_, nullptr), "fill device memory");
  check_driver(driver().StreamSynchronize(nullptr), "fill device memory");
}

}  // namespace kdagen::runtime
