// SPDX-License-Identifier: Apache-2.0
// The hand-declared driver functions against the toolkit's header, where there is one.
#ifdef KDAGEN_HAS_CUDA_H
#include <cuda.h>

#include <type_traits>

#include "runtime/driver.h"

namespace {

// Passed the same way: as many parameters, each as wide and of the same register class.
template <class A, class B>
constexpr bool same_class = sizeof(A) == sizeof(B) && std::is_floating_point_v<A> == std::is_floating_point_v<B> &&
                            std::is_pointer_v<A> == std::is_pointer_v<B>;

template <class Theirs, class Ours>
struct Matches : std::false_type {};
template <class R1, class... A, class R2, class... B>
  requires(sizeof...(A) == sizeof...(B))
struct Matches<R1 (*)(A...), R2 (*)(B...)> : std::bool_constant<same_class<R1, R2> && (same_class<A, B> && ...)> {};

#define KDAGEN_MATCHES(name) \
  static_assert(Matches<decltype(&cu##name), decltype(kdagen::runtime::DriverFunctions::name)>::value, #name)
KDAGEN_MATCHES(DriverGetVersion);
KDAGEN_MATCHES(DeviceGetCount);
KDAGEN_MATCHES(DeviceGet);
KDAGEN_MATCHES(DeviceGetName);
KDAGEN_MATCHES(DeviceGetAttribute);
KDAGEN_MATCHES(DeviceTotalMem);
KDAGEN_MATCHES(DevicePrimaryCtxRetain);
KDAGEN_MATCHES(DevicePrimaryCtxRelease);
KDAGEN_MATCHES(CtxPushCurrent);
KDAGEN_MATCHES(CtxPopCurrent);
KDAGEN_MATCHES(CtxSynchronize);
KDAGEN_MATCHES(CtxGetId);
KDAGEN_MATCHES(ModuleLoadDataEx);
KDAGEN_MATCHES(ModuleUnload);
KDAGEN_MATCHES(ModuleGetFunction);
KDAGEN_MATCHES(FuncGetAttribute);
KDAGEN_MATCHES(FuncSetAttribute);
KDAGEN_MATCHES(FuncGetParamInfo);
KDAGEN_MATCHES(LaunchKernel);
KDAGEN_MATCHES(TensorMapEncodeTiled);
KDAGEN_MATCHES(MemAlloc);
KDAGEN_MATCHES(MemFree);
KDAGEN_MATCHES(MemAllocFromPoolAsync);
KDAGEN_MATCHES(MemFreeAsync);
KDAGEN_MATCHES(MemPoolCreate);
KDAGEN_MATCHES(MemPoolSetAttribute);
KDAGEN_MATCHES(MemcpyHtoDAsync);
KDAGEN_MATCHES(MemcpyDtoHAsync);
KDAGEN_MATCHES(MemcpyDtoDAsync);
KDAGEN_MATCHES(MemsetD8Async);
KDAGEN_MATCHES(MemsetD2D8Async);
KDAGEN_MATCHES(StreamCreate);
KDAGEN_MATCHES(StreamDestroy);
KDAGEN_MATCHES(StreamSynchronize);
KDAGEN_MATCHES(StreamIsCapturing);
KDAGEN_MATCHES(EventCreate);
KDAGEN_MATCHES(EventRecord);
KDAGEN_MATCHES(EventSynchronize);
KDAGEN_MATCHES(EventElapsedTime);
KDAGEN_MATCHES(EventDestroy);
KDAGEN_MATCHES(PointerGetAttribute);
KDAGEN_MATCHES(GetErrorName);
KDAGEN_MATCHES(GetErrorString);
KDAGEN_MATCHES(OccupancyMaxActiveBlocksPerMultiprocessor);
KDAGEN_MATCHES(ThreadExchangeStreamCaptureMode);

static_assert(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN == 97 &&
              CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED == 115);
static_assert(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES == 8 && CU_FUNC_ATTRIBUTE_NUM_REGS == 4);
static_assert(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD == 4 && sizeof(CUmemPoolProps) == 88);
static_assert(offsetof(CUmemPoolProps, location) == 8 && offsetof(CUmemPoolProps, maxSize) == 24);
static_assert(CU_POINTER_ATTRIBUTE_MEMORY_TYPE == 2 && CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL == 9 &&
              CU_MEMORYTYPE_DEVICE == 2);
static_assert(CU_STREAM_NON_BLOCKING == 1 && CU_STREAM_CAPTURE_MODE_RELAXED == 2 &&
              CUDA_ERROR_STREAM_CAPTURE_IMPLICIT == 906);

}  // namespace
#endif
