// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include <fmt/format.h>

#include "runtime/libraries.h"
#include "runtime/process.h"

namespace kdagen::runtime {
namespace {

constexpr int abi_version = 12000;
using GetProcAddress = CudaResult (*)(const char*, void**, int, std::uint64_t, int*);

struct Driver {
  DriverStatus status;
  DriverFunctions functions{};
  pid_t process = 0;
};

struct Symbol {
  const char* name;       // for cuGetProcAddress
  const char* versioned;  // exported name of the same ABI
  void** slot;
  int since = abi_version;
  bool optional = false;
};

template <class Function>
void** slot(Function& function) {
  return reinterpret_cast<void**>(&function);
}

std::vector<Symbol> symbols(DriverFunctions& f) {
#define KDAGEN_PLAIN(name) {"cu" #name, "cu" #name, slot(f.name)}
#define KDAGEN_V2(name) {"cu" #name, "cu" #name "_v2", slot(f.name)}
  return {KDAGEN_PLAIN(DriverGetVersion),
          KDAGEN_PLAIN(DeviceGetCount),
          KDAGEN_PLAIN(DeviceGet),
          KDAGEN_PLAIN(DeviceGetName),
          KDAGEN_PLAIN(DeviceGetAttribute),
          KDAGEN_V2(DeviceTotalMem),
          KDAGEN_PLAIN(DevicePrimaryCtxRetain),
          KDAGEN_V2(DevicePrimaryCtxRelease),
          KDAGEN_V2(CtxPushCurrent),
          KDAGEN_V2(CtxPopCurrent),
          KDAGEN_PLAIN(CtxSynchronize),
          KDAGEN_PLAIN(ModuleLoadDataEx),
          KDAGEN_PLAIN(ModuleUnload),
          KDAGEN_PLAIN(ModuleGetFunction),
          KDAGEN_PLAIN(FuncGetAttribute),
          KDAGEN_PLAIN(FuncSetAttribute),
          KDAGEN_PLAIN(LaunchKernel),
          KDAGEN_V2(MemAlloc),
          KDAGEN_V2(MemFree),
          KDAGEN_V2(MemcpyHtoDAsync),
          KDAGEN_V2(MemcpyDtoHAsync),
          KDAGEN_V2(MemcpyDtoDAsync),
          KDAGEN_PLAIN(MemsetD8Async),
          KDAGEN_PLAIN(MemsetD2D8Async),
          KDAGEN_PLAIN(StreamCreate),
          KDAGEN_V2(StreamDestroy),
          KDAGEN_PLAIN(StreamSynchronize),
          KDAGEN_PLAIN(StreamIsCapturing),
          KDAGEN_PLAIN(EventCreate),
          KDAGEN_PLAIN(EventRecord),
          KDAGEN_PLAIN(EventSynchronize),
          KDAGEN_PLAIN(EventElapsedTime),
          KDAGEN_V2(EventDestroy),
          KDAGEN_PLAIN(PointerGetAttribute),
          KDAGEN_PLAIN(GetErrorName),
          KDAGEN_PLAIN(GetErrorString),
          KDAGEN_PLAIN(OccupancyMaxActiveBlocksPerMultiprocessor),
          KDAGEN_PLAIN(MemAllocFromPoolAsync),
          KDAGEN_PLAIN(MemFreeAsync),
          KDAGEN_PLAIN(MemPoolCreate),
          KDAGEN_PLAIN(MemPoolSetAttribute),
          {"cuCtxGetId", "cuCtxGetId", slot(f.CtxGetId), 12000, true},
          {"cuFuncGetParamInfo", "cuFuncGetParamInfo", slot(f.FuncGetParamInfo), 12040, true},
          {"cuThreadExchangeStreamCaptureMode", "cuThreadExchangeStreamCaptureMode",
           slot(f.ThreadExchangeStreamCaptureMode), 12000, true},
          {"cuTensorMapEncodeTiled", "cuTensorMapEncodeTiled", slot(f.TensorMapEncodeTiled), 12000, true}};
#undef KDAGEN_PLAIN
#undef KDAGEN_V2
}

void* find_library(DriverStatus& status) {
  std::vector<std::string> names{"libcuda.so.1", "libcuda.so"};
  const std::string chosen = environment_variable("KDAGEN_LIBCUDA");
  if (!chosen.empty()) names = {chosen};
  for (const std::string& name : names) {
    std::string reason;
    if (void* library = open_library(name, reason)) {
      status.library = name;
      return library;
    }
    if (status.reason.empty()) status.reason = reason;
  }
  status.reason = fmt::format("no NVIDIA driver: {}", status.reason);
  if (!chosen.empty()) status.reason += " (KDAGEN_LIBCUDA is set, so no other place was tried)";
  return nullptr;
}

bool load_functions(void* library, Driver& driver) {
  const auto get_address = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  for (const Symbol& symbol : symbols(driver.functions)) {
    *symbol.slot = nullptr;
    if (get_address && driver.status.version >= symbol.since)
      get_address(symbol.name, symbol.slot, symbol.since, 0, nullptr);
    if (!*symbol.slot) *symbol.slot = dlsym(library, symbol.versioned);
    if (!*symbol.slot && !symbol.optional) {
      driver.status.reason =
          fmt::format("{} has no {}: the driver is too old (CUDA {}.{}); kdagen needs CUDA 11.4", driver.status.library,
                      symbol.name, driver.status.version / 1000, driver.status.version % 1000 / 10);
      return false;
    }
  }
  return true;
}

std::string init_failure(CudaResult result, const std::string& library) {
  switch (result) {
    case 34:
      return fmt::format("{} is the CUDA toolkit's stub, not a driver", library);
    case 100:
      return fmt::format("the driver ({}) sees no CUDA device", library);
    case 803:
      return fmt::format("{}: the driver's library and kernel module have different versions", library);
    case 804:
      return fmt::format("{}: this compatibility library does not support the device", library);
    default:
      return fmt::format("{}: initialising the driver failed with error {}", library, result);
  }
}

Driver load_driver() {
  Driver driver;
  driver.process = getpid();
  void* library = find_library(driver.status);
  if (!library) return driver;
  const auto init = reinterpret_cast<CudaResult (*)(unsigned)>(dlsym(library, "cuInit"));
  const auto version = reinterpret_cast<CudaResult (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
  if (!init || !version) {
    driver.status.reason = fmt::format("{} is no CUDA driver: it has no cuInit", driver.status.library);
    return driver;
  }
  const CudaResult result = init(0);
  version(&driver.status.version);
  if (result != cuda_success) {
    driver.status.reason = init_failure(result, driver.status.library);
    return driver;
  }
  if (!load_functions(library, driver)) return driver;
  if (driver.functions.DeviceGetCount(&driver.status.device_count) != cuda_success || !driver.status.device_count) {
    driver.status.reason = init_failure(100, driver.status.library);
    return driver;
  }
  driver.status.ok = true;
  return driver;
}

const Driver& loaded() {
  static const Driver driver = load_driver();
  return driver;
}

// Errors after which the context refuses everything.
bool destroys_context(CudaResult result) {
  constexpr CudaResult fatal[] = {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721};
  return std::find(std::begin(fatal), std::end(fatal), result) != std::end(fatal);
}

std::atomic<CudaResult> first_fault{cuda_success};

}  // namespace

const DriverStatus& driver_status() { return loaded().status; }

const DriverFunctions& driver() {
  const Driver& found = loaded();
  if (!found.status.ok) throw ToolchainError("no CUDA device can be used: " + found.status.reason);
  if (found.process != getpid())
    throw DeviceLost(
        "the GPU was used before this process was forked, and CUDA does not survive a fork; use it in the "
        "child only, or start the child with exec");
  return found.functions;
}

std::string driver_error_text(CudaResult result) {
  const char *name = nullptr, *text = nullptr;
  const DriverFunctions& functions = loaded().functions;
  if (functions.GetErrorName) functions.GetErrorName(result, &name);
  if (functions.GetErrorString) functions.GetErrorString(result, &text);
  return fmt::format("{} ({}){}{}", name ? name : "CUDA error", result, text ? ": " : "", text ? text : "");
}

void check_driver(CudaResult result, std::string_view action) {
  if (result == cuda_success) return;
  if (destroys_context(result)) {
    CudaResult none = cuda_success;
    const bool first = first_fault.compare_exchange_strong(none, result);
    throw DeviceLost(fmt::format(
        "cannot {}: {}. {} the context of this process is lost, nothing computed since the fault can be trusted, and "
        "only a new process can use the device again",
        action, driver_error_text(result),
        first ? "A kernel faulted:" : fmt::format("An earlier fault ({}) was reported:", driver_error_text(none))));
  }
  if (result == cuda_out_of_memory) throw ToolchainError(fmt::format("cannot {}: the device is out of memory", action));
  constexpr CudaResult invalid_handle = 400;
  throw ToolchainError(fmt::format("cannot {}: {}{}", action, driver_error_text(result),
                                   result == invalid_handle ? " (a stream must belong to the tensors' device)" : ""));
}

}  // namespace kdagen::runtime
