// SPDX-License-Identifier: Apache-2.0
// Hands the prelude's functions to the tests, element by element.
#include <kdagen/device.cuh>

template <class T>
struct Convert {
  const float* in;
  T* out;
  const T* stored;
  float* widened;
  long long count, stored_count;
};

template <class T>
KD_FUNCTION void convert(const Convert<T>& a) {
  for (long long i = 0; i < a.count; ++i) a.out[i] = to<T>(a.in[i]);
  for (long long i = 0; i < a.stored_count; ++i) a.widened[i] = to_float(a.stored[i]);
}

KD_KERNEL(1, 1) void convert_bf16(const Convert<bf16> a) { convert(a); }
KD_ENTRY(convert_bf16, Convert<bf16>);
KD_KERNEL(1, 1) void convert_fp16(const Convert<fp16> a) { convert(a); }
KD_ENTRY(convert_fp16, Convert<fp16>);
KD_KERNEL(1, 1) void convert_i8(const Convert<signed char> a) {
  for (long long i = 0; i < a.stored_count; ++i) a.widened[i] = to_float(a.stored[i]);
}
KD_ENTRY(convert_i8, Convert<signed char>);

/// Copies 4 * gridDim.x * blockDim.x elements of each type, four a thread.
struct Copy {
  const bf16* from_bf16;
  bf16* to_bf16;
  const fp16* from_fp16;
  fp16* to_fp16;
  const float* from_float;
  float* to_float;
};

template <bool aligned, class T>
KD_FUNCTION void copy4(const T* from, T* to_where) {
  const long long first = 4 * (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x);
  float four[4];
  load4<aligned>(from + first, four);
  store4<aligned>(to_where + first, four);
}

template <bool aligned>
KD_FUNCTION void copy_all(const Copy& a) {
  copy4<aligned>(a.from_bf16, a.to_bf16);
  copy4<aligned>(a.from_fp16, a.to_fp16);
  copy4<aligned>(a.from_float, a.to_float);
}

KD_KERNEL(64, 1) void copy_aligned(const Copy a) { copy_all<true>(a); }
KD_ENTRY(copy_aligned, Copy);
KD_KERNEL(64, 1) void copy_any(const Copy a) { copy_all<false>(a); }
KD_ENTRY(copy_any, Copy);

struct Functions {
  const float* x;
  float *exp2, *log2, *rcp, *rsqrt, *scaled;
  const int* power;
  long long count;
};

KD_KERNEL(1, 1) void functions(const Functions a) {
  for (long long i = 0; i < a.count; ++i) {
    a.exp2[i] = approx_exp2(a.x[i]);
    a.log2[i] = approx_log2(a.x[i]);
    a.rcp[i] = approx_rcp(a.x[i]);
    a.rsqrt[i] = approx_rsqrt(a.x[i]);
    a.scaled[i] = scale_by_power_of_two(a.x[i], a.power[i]);
  }
}
KD_ENTRY(functions, Functions);

/// Where each thread of a three-dimensional launch is, and what its neighbours hand it.
struct Identity {
  unsigned* where;      // [blocks, threads, 6]
  float* from_float;    // [blocks, threads]: lane ^ 5
  long long* from_i64;  // [blocks, threads]: lane ^ 16
};

KD_KERNEL(64, 1) void identity(const Identity a) {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  const unsigned where[6] = {threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y, blockIdx.z};
  for (int j = 0; j < 6; ++j) a.where[6 * i + j] = where[j];
  a.from_float[i] = lane_xor(static_cast<float>(thread) + 0.5f, 5);
  a.from_i64[i] = lane_xor(static_cast<long long>(thread) << 40, 16);
}
KD_ENTRY(identity, Identity);
