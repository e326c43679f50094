/* SPDX-License-Identifier: Apache-2.0 */
/* kdagen's runtime for C and everything that can call C: load an emitted text with its manifest, launch it on CUDA
 * devices. No CUDA header is needed. Every function is thread-safe. A function that returns int returns KDAGEN_OK or
 * one of the codes below, and then kdagen_last_error() says what is wrong; nothing has been written to the tensors. */
#ifndef KDAGEN_RUNTIME_H
#define KDAGEN_RUNTIME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KDAGEN_API __attribute__((visibility("default")))

enum {
  KDAGEN_OK = 0,
  KDAGEN_CHECK_FAILED = 1, /* a check did not hold */
  KDAGEN_USAGE = 2,        /* an argument is wrong */
  KDAGEN_TOOLCHAIN = 3,    /* a compiler, the driver or a device is missing or failed */
  KDAGEN_INTERNAL = 70     /* a fault of kdagen */
};

typedef enum { KDAGEN_F64, KDAGEN_F32, KDAGEN_BF16, KDAGEN_FP16, KDAGEN_I64, KDAGEN_I32, KDAGEN_I8 } kdagen_dtype;

/* A tensor of the manifest by name. Strides count elements. `device` is the ordinal of the device that holds `data`. */
typedef struct {
  const char* name;
  void* data;
  kdagen_dtype dtype;
  int32_t device;
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides;
} kdagen_tensor;

typedef enum { KDAGEN_FIXED_LENGTH, KDAGEN_OFFSETS_I32, KDAGEN_OFFSETS_I64 } kdagen_offsets;

/* Fixed length: `batch` rows of `tokens`. Packed: batch 1, `sequences` sequences, and cu_seqlens[0..sequences] on the
 * tensors' device. */
typedef struct {
  int64_t batch, tokens, heads, sequences;
  const void* cu_seqlens;
  kdagen_offsets offsets;
} kdagen_problem;

typedef enum { KDAGEN_COMPILER_AUTO, KDAGEN_COMPILER_NVRTC, KDAGEN_COMPILER_NVCC } kdagen_compiler;

typedef struct kdagen_kernel kdagen_kernel;

/* Message of the last failure in the calling thread; never null, valid until the thread's next call. */
KDAGEN_API const char* kdagen_last_error(void);

/* "0.1.0" */
KDAGEN_API const char* kdagen_runtime_version(void);

/* Reads text and manifest (as emitted; UTF-8, lengths in bytes). Nothing is compiled and no device is touched yet. */
KDAGEN_API int kdagen_load(const char* text, int64_t text_bytes, const char* manifest, int64_t manifest_bytes,
                           kdagen_compiler compiler, kdagen_kernel** kernel);
/* Reads them from files. */
KDAGEN_API int kdagen_load_files(const char* text_path, const char* manifest_path, kdagen_compiler compiler,
                                 kdagen_kernel** kernel);

/* Hands over a binary made from the text ahead of time (kdagen_add_kernels): a cubin with arch "sm_90" or so, or
 * null-terminated PTX with "compute_90". Devices that it runs on then need no compiler. */
KDAGEN_API int kdagen_add_binary(kdagen_kernel* kernel, const char* arch, const void* image, int64_t image_bytes);

/* No launch of it may be running or about to run. Null is allowed. */
KDAGEN_API void kdagen_unload(kdagen_kernel* kernel);

/* Compiles (or finds in the cache) and loads for a device. Needed only before a launch inside a graph capture. */
KDAGEN_API int kdagen_warm_up(kdagen_kernel* kernel, int32_t device);

/* Bytes of device memory, aligned to 256, that a launch of this size needs besides the tensors. */
KDAGEN_API int kdagen_workspace_bytes(const kdagen_kernel* kernel, const kdagen_problem* problem, int64_t* bytes);

/* Checks everything, then enqueues the launches on `stream` (a CUstream or cudaStream_t of the tensors' device; null is
 * the default stream). Does not wait for the device. Optional tensors are left out or given with a null `data`. With a
 * null `workspace` the launch takes its own memory in the order of the stream; else it must stay untouched until the
 * launch is done. */
KDAGEN_API int kdagen_launch(kdagen_kernel* kernel, const kdagen_tensor* tensors, int32_t tensor_count,
                             const kdagen_problem* problem, void* stream, void* workspace, int64_t workspace_bytes);

#ifdef __cplusplus
}
#endif

#endif
