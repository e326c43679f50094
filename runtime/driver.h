// SPDX-License-Identifier: Apache-2.0
// The CUDA driver API, found at run time: a program with this linked in starts and works without a driver until it
// needs one. Functions are declared by hand, so building needs no CUDA header.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kdagen/error.h"

namespace kdagen::runtime {

using CudaResult = int;
using CudaDevice = int;
using CudaContext = void*;
using CudaModule = void*;
using CudaFunction = void*;
using CudaStream = void*;
using CudaEvent = void*;
using CudaMemoryPool = void*;
using CudaPointer = unsigned long long;

inline constexpr CudaResult cuda_success = 0, cuda_out_of_memory = 2, cuda_capture_implicit = 906;

/// The device cannot be used any more by this process: a fault destroyed its context, or the process was forked after
/// first use.
class DeviceLost : public ToolchainError {
 public:
  using ToolchainError::ToolchainError;
};

/// Pointers to the driver's functions. Names as in the driver API, without the version suffix; the ABI is CUDA 12.0's.
struct DriverFunctions {
  CudaResult (*DriverGetVersion)(int*);
  CudaResult (*DeviceGetCount)(int*);
  CudaResult (*DeviceGet)(CudaDevice*, int);
  CudaResult (*DeviceGetName)(char*, int, CudaDevice);
  CudaResult (*DeviceGetAttribute)(int*, int, CudaDevice);
  CudaResult (*DeviceTotalMem)(std::size_t*, CudaDevice);
  CudaResult (*DevicePrimaryCtxRetain)(CudaContext*, CudaDevice);
  CudaResult (*DevicePrimaryCtxRelease)(CudaDevice);
  CudaResult (*CtxPushCurrent)(CudaContext);
  CudaResult (*CtxPopCurrent)(CudaContext*);
  CudaResult (*CtxSynchronize)();
  CudaResult (*ModuleLoadDataEx)(CudaModule*, const void*, unsigned, int*, void**);
  CudaResult (*ModuleUnload)(CudaModule);
  CudaResult (*ModuleGetFunction)(CudaFunction*, CudaModule, const char*);
  CudaResult (*FuncGetAttribute)(int*, int, CudaFunction);
  CudaResult (*FuncSetAttribute)(CudaFunction, int, int);
  CudaResult (*LaunchKernel)(CudaFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             CudaStream, void**, void**);
  CudaResult (*MemAlloc)(CudaPointer*, std::size_t);
  CudaResult (*MemFree)(CudaPointer);
  CudaResult (*MemcpyHtoDAsync)(CudaPointer, const void*, std::size_t, CudaStream);
  CudaResult (*MemcpyDtoHAsync)(void*, CudaPointer, std::size_t, CudaStream);
  CudaResult (*MemcpyDtoDAsync)(CudaPointer, CudaPointer, std::size_t, CudaStream);
  CudaResult (*MemsetD8Async)(CudaPointer, unsigned char, std::size_t, CudaStream);
  CudaResult (*MemsetD2D8Async)(CudaPointer, std::size_t, unsigned char, std::size_t, std::size_t, CudaStream);
  CudaResult (*StreamCreate)(CudaStream*, unsigned);
  CudaResult (*StreamDestroy)(CudaStream);
  CudaResult (*StreamSynchronize)(CudaStream);
  CudaResult (*StreamIsCapturing)(CudaStream, int*);
  CudaResult (*EventCreate)(CudaEvent*, unsigned);
  CudaResult (*EventRecord)(CudaEvent, CudaStream);
  CudaResult (*EventSynchronize)(CudaEvent);
  CudaResult (*EventElapsedTime)(float*, CudaEvent, CudaEvent);
  CudaResult (*EventDestroy)(CudaEvent);
  CudaResult (*PointerGetAttribute)(void*, int, CudaPointer);
  CudaResult (*GetErrorName)(CudaResult, const char**);
  CudaResult (*GetErrorString)(CudaResult, const char**);
  CudaResult (*OccupancyMaxActiveBlocksPerMultiprocessor)(int*, CudaFunction, int, std::size_t);
  CudaResult (*MemAllocFromPoolAsync)(CudaPointer*, std::size_t, CudaMemoryPool, CudaStream);
  CudaResult (*MemFreeAsync)(CudaPointer, CudaStream);
  CudaResult (*MemPoolCreate)(CudaMemoryPool*, const void*);
  CudaResult (*MemPoolSetAttribute)(CudaMemoryPool, int, void*);
  // Null with older drivers.
  CudaResult (*CtxGetId)(CudaContext, unsigned long long*);
  CudaResult (*FuncGetParamInfo)(CudaFunction, std::size_t, std::size_t*, std::size_t*);
  CudaResult (*ThreadExchangeStreamCaptureMode)(int*);
  CudaResult (*TensorMapEncodeTiled)(void*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*,
                                     const std::uint32_t*, const std::uint32_t*, int, int, int, int);
};

/// Where the driver was found, or why not.
struct DriverStatus {
  bool ok = false;
  std::string library;  ///< the name that could be opened
  std::string reason;   ///< in words, when not ok
  int version = 0;      ///< 13000 is 13.0
  int device_count = 0;
};

/// Opens the library and initialises it on the first call of the process ($KDAGEN_LIBCUDA alone if set, else
/// libcuda.so.1, libcuda.so). Never throws.
const DriverStatus& driver_status();

/// The functions; ToolchainError with the reason when there is no driver, it is a stub, or it sees no device, and
/// DeviceLost in a child forked after the first call.
const DriverFunctions& driver();

/// Throws when `result` is an error: DeviceLost once a fault destroyed the context, else ToolchainError. `action`
/// completes "cannot ...".
void check_driver(CudaResult result, std::string_view action);

/// The same for calls that are made often: `action()` makes the text, once something went wrong.
template <std::invocable Action>
void check_driver(CudaResult result, const Action& action) {
  if (result != cuda_success) check_driver(result, std::string_view(action()));
}

/// "CUDA_ERROR_INVALID_VALUE (1): invalid argument"
std::string driver_error_text(CudaResult result);

/// Runs the clean-up of a destructor; the driver may be out of reach by then.
template <class Action>
void quietly(Action action) noexcept {
  try {
    action();
  } catch (const Error&) {
    return;  // nobody is left to be told
  }
}

}  // namespace kdagen::runtime
