// SPDX-License-Identifier: Apache-2.0
#include "tests/common/fake_cuda.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#define CUDA_CALL extern "C" __attribute__((visibility("default"))) int

using kdagen::testing::FakeCuda;

namespace {

using Pointer = unsigned long long;  // CUdeviceptr

constexpr int invalid_value = 1, no_context = 201, not_found = 500;

struct Context {
  int device;
};
struct Module;
struct Function {
  Module* module;
  std::string name;
};
struct Module {
  int device;
  std::string image;
  std::deque<Function> functions;  // as long as the module
};
struct Range {
  std::size_t bytes;
  int device;
};

FakeCuda fake;
std::mutex mutex;
Context contexts[2] = {{0}, {1}};
std::map<std::uint64_t, Range> memory;
thread_local std::vector<Context*> stack;

int current() { return stack.empty() ? -1 : stack.back()->device; }

bool wrong_context(int device) {
  if (current() >= 0 && (device < 0 || current() == device)) return false;
  ++fake.mistakes;
  return true;
}

int allocate(Pointer* pointer, std::size_t bytes, const char* how) {
  const std::lock_guard lock(mutex);
  if (wrong_context(-1)) return no_context;
  void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(data, 0xff, bytes);
  *pointer = reinterpret_cast<std::uint64_t>(data);
  memory[*pointer] = {bytes, current()};
  fake.calls.push_back(how);
  return 0;
}

int release(Pointer pointer) {
  const std::lock_guard lock(mutex);
  if (!memory.erase(pointer)) ++fake.mistakes;
  std::free(reinterpret_cast<void*>(pointer));
  return 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) FakeCuda* kdagen_fake_cuda() {
  fake.contexts_on_stack = static_cast<int>(stack.size());
  fake.current_device = current();
  return &fake;
}
extern "C" __attribute__((visibility("default"))) void kdagen_fake_push(int device) {
  stack.push_back(&contexts[device]);
}

CUDA_CALL cuInit(unsigned) { return 0; }
CUDA_CALL cuDriverGetVersion(int* version) { return *version = 12040, 0; }
CUDA_CALL cuDeviceGetCount(int* count) { return *count = 2, 0; }
CUDA_CALL cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal >= 0 && ordinal < 2 ? 0 : 101; }
CUDA_CALL cuDeviceGetName(char* name, int, int device) { return std::strcpy(name, device ? "Fake 90" : "Fake 80"), 0; }
CUDA_CALL cuDeviceGetAttribute(int* value, int attribute, int device) {
  const std::map<int, int> values{{12, 65536}, {16, 100 + device}, {38, 1 << 20}, {39, 2048}, {75, 8 + device},
                                  {76, 0},     {81, 167936},       {97, 101376},  {115, 1}};
  *value = values.at(attribute);
  return 0;
}
CUDA_CALL cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = 1 << 30, 0; }
CUDA_CALL cuDevicePrimaryCtxRetain(void** context, int device) { return *context = &contexts[device], 0; }
CUDA_CALL cuDevicePrimaryCtxRelease_v2(int) { return 0; }
CUDA_CALL cuCtxPushCurrent_v2(void* context) { return stack.push_back(static_cast<Context*>(context)), 0; }
CUDA_CALL cuCtxPopCurrent_v2(void** context) {
  if (stack.empty()) return no_context;
  *context = stack.back();
  stack.pop_back();
  return 0;
}
CUDA_CALL cuCtxSynchronize() { return 0; }
CUDA_CALL cuCtxGetId(void* context, unsigned long long* id) {
  return *id = 10 + static_cast<Context*>(context)->device, 0;
}
CUDA_CALL cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) {
  const std::lock_guard lock(mutex);
  if (wrong_context(-1)) return no_context;
  if (fake.next_load_result) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == 5) std::strcpy(static_cast<char*>(values[i]), "words of the driver");
    return std::exchange(fake.next_load_result, 0);
  }
  ++fake.modules_loaded[current()];
  // A cubin is an ELF file; its size follows from the section table at its end.
  const auto* bytes = static_cast<const unsigned char*>(image);
  std::uint64_t table;
  std::uint16_t entry_size, entries;
  std::memcpy(&table, bytes + 0x28, 8);
  std::memcpy(&entry_size, bytes + 0x3a, 2);
  std::memcpy(&entries, bytes + 0x3c, 2);
  *module = new Module{
      current(), std::string(static_cast<const char*>(image), table + std::size_t{entry_size} * entries), {}};
  return 0;
}
CUDA_CALL cuModuleUnload(void* module) { return delete static_cast<Module*>(module), 0; }
CUDA_CALL cuModuleGetFunction(void** function, void* module, const char* name) {
  auto* from = static_cast<Module*>(module);
  if (wrong_context(from->device)) return no_context;
  if (from->image.find(std::string(".text.") + name + '\0') == std::string::npos) return not_found;
  return *function = &from->functions.emplace_back(Function{from, name}), 0;
}
CUDA_CALL cuFuncGetAttribute(int* value, int attribute, void*) {
  const std::map<int, int> values{{0, fake.max_threads}, {1, fake.static_shared}, {3, 0}, {4, 40}};
  return *value = values.at(attribute), 0;
}
CUDA_CALL cuFuncSetAttribute(void*, int attribute, int value) {
  fake.calls.push_back("attribute " + std::to_string(attribute) + " = " + std::to_string(value));
  return 0;
}
CUDA_CALL cuFuncGetParamInfo(void*, std::size_t, std::size_t* offset, std::size_t* bytes) {
  *offset = 0;
  *bytes = static_cast<std::size_t>(fake.parameter_bytes);
  return fake.parameter_bytes < 0 ? invalid_value : 0;
}
CUDA_CALL cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned, unsigned,
                         unsigned shared, void* stream, void** parameters, void**) {
  const std::lock_guard lock(mutex);
  auto* entry = static_cast<Function*>(function);
  if (wrong_context(entry->module->device)) return no_context;
  if (fake.next_launch_result) return fake.next_launch_result;
  const auto* words = static_cast<const std::uint64_t*>(parameters[0]);
  fake.launches.push_back({entry->name, current(), {gx, gy, gz}, bx, shared, stream, {words, words + fake.word_count}});
  return fake.launch_result ? fake.launch_result(fake.launches.back()) : 0;
}
CUDA_CALL cuMemAlloc_v2(Pointer* pointer, std::size_t bytes) { return allocate(pointer, bytes, "alloc"); }
CUDA_CALL cuMemFree_v2(Pointer pointer) { return release(pointer); }
CUDA_CALL cuMemAllocFromPoolAsync(Pointer* pointer, std::size_t bytes, void*, void* stream) {
  return allocate(pointer, bytes, stream ? "pool alloc on a stream" : "pool alloc");
}
CUDA_CALL cuMemFreeAsync(Pointer pointer, void* stream) {
  fake.calls.push_back(stream ? "pool free on a stream" : "pool free");
  return release(pointer);
}
CUDA_CALL cuMemPoolCreate(void** pool, const void* properties) {
  int location;
  std::memcpy(&location, static_cast<const char*>(properties) + 12, 4);
  if (location != current()) ++fake.mistakes;
  return *pool = &contexts[location], 0;
}
CUDA_CALL cuMemPoolSetAttribute(void*, int, void*) { return 0; }
CUDA_CALL cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t bytes, void*) {
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0;
}
CUDA_CALL cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t bytes, void*) {
  return std::memcpy(to, reinterpret_cast<void*>(from), bytes), 0;
}
CUDA_CALL cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t bytes, void*) {
  return std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes), 0;
}
CUDA_CALL cuMemsetD8Async(Pointer to, unsigned char byte, std::size_t bytes, void* stream) {
  if (wrong_context(-1)) return no_context;
  fake.calls.push_back(stream ? "memset on a stream" : "memset");
  return std::memset(reinterpret_cast<void*>(to), byte, bytes), 0;
}
CUDA_CALL cuMemsetD2D8Async(Pointer to, std::size_t pitch, unsigned char byte, std::size_t width, std::size_t height,
                            void* stream) {
  if (pitch < width || wrong_context(-1)) return invalid_value;
  fake.calls.push_back(stream ? "memset 2D on a stream" : "memset 2D");
  for (std::size_t row = 0; row < height; ++row) std::memset(reinterpret_cast<char*>(to) + row * pitch, byte, width);
  return 0;
}
CUDA_CALL cuStreamCreate(void** stream, unsigned) { return *stream = new int, 0; }
CUDA_CALL cuStreamDestroy_v2(void* stream) { return delete static_cast<int*>(stream), 0; }
CUDA_CALL cuStreamSynchronize(void*) { return 0; }
CUDA_CALL cuStreamIsCapturing(void*, int* status) { return *status = fake.capturing, 0; }
CUDA_CALL cuEventCreate(void** event, unsigned) { return *event = new int, 0; }
CUDA_CALL cuEventDestroy_v2(void* event) { return delete static_cast<int*>(event), 0; }
CUDA_CALL cuEventRecord(void*, void*) {
  if (fake.events_are_calls) fake.calls.push_back("event");
  return 0;
}
CUDA_CALL cuEventSynchronize(void*) { return 0; }
CUDA_CALL cuEventElapsedTime(float* milliseconds, void*, void*) {
  const std::lock_guard lock(mutex);
  return *milliseconds = fake.elapsed && !fake.launches.empty() ? fake.elapsed(fake.launches.back()) : 1.5f, 0;
}
CUDA_CALL cuPointerGetAttribute(void* value, int attribute, Pointer pointer) {
  const std::lock_guard lock(mutex);
  auto found = memory.upper_bound(pointer);
  if (found == memory.begin()) return invalid_value;
  --found;
  if (pointer >= found->first + found->second.bytes) return invalid_value;
  const int answer = attribute == 2 ? 2 : found->second.device;
  return std::memcpy(value, &answer, 4), 0;
}
CUDA_CALL cuGetErrorName(int, const char** name) { return *name = "FAKE_ERROR", 0; }
CUDA_CALL cuGetErrorString(int, const char** text) { return *text = "a fault of the fake", 0; }
CUDA_CALL cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, std::size_t) { return *blocks = 4, 0; }
