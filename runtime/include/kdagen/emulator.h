// SPDX-License-Identifier: Apache-2.0
// Gives an emitted kernel's CUDA words a meaning in host C++20. Force-included in front of the text
// (-include kdagen/emulator.h); the text itself is unchanged. The functions named kdagen_emulator_* live in the
// program that loads the compiled text (runtime/emulator).
#pragma once

// ---- What the host program provides --------------------------------------------------------------------------

struct uint3 {
  unsigned x, y, z;
};
using dim3 = uint3;

/// One KD_SHARED declaration: the address of this object identifies the array.
struct kdagen_emulator_array {
  const char* name;
  unsigned long long bytes;
};

extern "C" {
// Constant for one thread of one launch, so the compiler may call each once.
__attribute__((const)) uint3 kdagen_emulator_thread_index();
__attribute__((const)) uint3 kdagen_emulator_block_index();
__attribute__((const)) uint3 kdagen_emulator_block_dim();
__attribute__((const)) uint3 kdagen_emulator_grid_dim();

void* kdagen_emulator_shared_array(const kdagen_emulator_array* array);
void* kdagen_emulator_dynamic_shared();

void kdagen_emulator_block_barrier(int line);
void kdagen_emulator_warp_barrier(int line);
/// Reports an address that is no multiple of `bytes`, a power of two.
void kdagen_emulator_require_alignment(const void* address, unsigned bytes);
/// `bits` of lane (own lane ^ mask).
unsigned long long kdagen_emulator_lane_xor(unsigned long long bits, int mask, int line);

// Operands on their way to shared memory (kdagen/staging.cuh). `arrival` and `map` are the text's objects.
void kdagen_emulator_initialise_arrival(const void* arrival, int line);
void kdagen_emulator_publish_arrivals();
void kdagen_emulator_expect_bytes(const void* arrival, unsigned bytes, const void* record,
                                  unsigned long long record_bytes, int line);
void kdagen_emulator_wait_for(const void* arrival, unsigned phase, int line);
void kdagen_emulator_fetch_box(void* to, const void* map, long long first, long long second, long long third,
                               const void* arrival, int line);
/// 16 bytes, or zeros unless `inside`, by the thread that asks: one request from one end to the next.
void kdagen_emulator_start_copy(void* to, const void* from, bool inside, int line);
void kdagen_emulator_end_of_copies();
/// Until all requests of the thread but its `later` last ones have arrived.
void kdagen_emulator_wait_for_copies(int later);
}

#ifndef KDAGEN_EMULATOR_HOOKS_ONLY  // the host program includes this file for the declarations above
#define KDAGEN_EMULATOR 1

#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

#define threadIdx kdagen_emulator_thread_index()
#define blockIdx kdagen_emulator_block_index()
#define blockDim kdagen_emulator_block_dim()
#define gridDim kdagen_emulator_grid_dim()
constexpr int warpSize = 32;

/// Whether the text was compiled with the memory checks; the host program asks before it trusts a silent run.
extern "C" {
extern const int kdagen_emulator_instrumented;
#ifdef KDAGEN_EMULATOR_CHECK
const int kdagen_emulator_instrumented = 1;
#else
const int kdagen_emulator_instrumented = 0;
#endif
}

// ---- The prelude's macros ------------------------------------------------------------------------------------

#define KD_KERNEL(threads, min_blocks) extern "C"

#define KD_ENTRY(name, Arguments)                                                \
  static_assert(sizeof(Arguments) % 8 == 0, "arguments are 8-byte words");       \
  extern "C" {                                                                   \
  extern const unsigned long long name##_words;                                  \
  const unsigned long long name##_words = sizeof(Arguments) / 8;                 \
  __attribute__((no_sanitize("thread"))) void name##_invoke(const void* words) { \
    name(*static_cast<const Arguments*>(words));                                 \
  }                                                                              \
  }                                                                              \
  static_assert(true, "")

#define KD_SHARED(type, name, count)                                                    \
  static const kdagen_emulator_array name##_declaration = {#name, sizeof(type[count])}; \
  auto& name = *static_cast<type(*)[count]>(kdagen_emulator_shared_array(&name##_declaration))

#define KD_DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(kdagen_emulator_dynamic_shared())

namespace kdagen_device {

// The default argument is evaluated where the function is called: reports name the kernel's line.
__attribute__((always_inline)) inline void block_barrier(int line = __builtin_LINE()) {
  kdagen_emulator_block_barrier(line);
}

__attribute__((always_inline)) inline void warp_barrier(int line = __builtin_LINE()) {
  kdagen_emulator_warp_barrier(line);
}

template <class T>
__attribute__((always_inline)) inline T lane_xor(T value, int mask, int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes exchange words of 4 or 8 bytes");
  if constexpr (sizeof(T) == 4) {
    const unsigned bits =
        static_cast<unsigned>(kdagen_emulator_lane_xor(__builtin_bit_cast(unsigned, value), mask, line));
    return __builtin_bit_cast(T, bits);
  } else {
    return __builtin_bit_cast(T, kdagen_emulator_lane_xor(__builtin_bit_cast(unsigned long long, value), mask, line));
  }
}

}  // namespace kdagen_device

// ---- CUDA's built-in functions -------------------------------------------------------------------------------
// Declared by hand: <math.h> would double the time to compile a small kernel.

extern "C" {
float expf(float) noexcept;
float exp2f(float) noexcept;
float expm1f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float log1pf(float) noexcept;
float sqrtf(float) noexcept;
float tanhf(float) noexcept;
float powf(float, float) noexcept;
float fmaf(float, float, float) noexcept;
float fminf(float, float) noexcept;
float fmaxf(float, float) noexcept;
float fabsf(float) noexcept;
float fmodf(float, float) noexcept;
float ldexpf(float, int) noexcept;
float copysignf(float, float) noexcept;
float rintf(float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float truncf(float) noexcept;
float roundf(float) noexcept;
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf_sign(x) != 0; }
inline bool isfinite(float x) { return __builtin_isfinite(x); }

inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }

template <class T>
inline T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
inline T max(T a, T b) {
  return a < b ? b : a;
}
#endif  // KDAGEN_EMULATOR_HOOKS_ONLY
