// SPDX-License-Identifier: Apache-2.0
// The device prelude: every name an emitted kernel uses that is not CUDA's own.
//
// One text for three compilers: nvcc, NVRTC (which sees no other header) and, with KDAGEN_EMULATOR defined by
// <kdagen/emulator.h>, a host C++20 compiler. No function here does more than one operation of a spec.
// Needs sm_80 or later; compiled with -fmad=false (host: -ffp-contract=off).
#pragma once

// Entries come in two variants: for aligned tensors and, with a name that ends in _any, for any alignment. Told
// KDAGEN_VARIANTS=1 a compiler makes the former alone, 2 the latter, in half the time; without it both.
#ifndef KDAGEN_VARIANTS
#define KDAGEN_VARIANTS 3
#endif
#define KD_ALIGNED_VARIANT (KDAGEN_VARIANTS & 1)
#define KD_ANY_VARIANT (KDAGEN_VARIANTS & 2)

#ifdef KDAGEN_EMULATOR
#define KD_FUNCTION inline __attribute__((always_inline))
#define KD_SEPARATE_FUNCTION inline
#else
#define KD_FUNCTION __device__ __forceinline__

/// A function that is called, for what is large, used in several places and no hurry.
#define KD_SEPARATE_FUNCTION __device__ __noinline__

/// In front of an entry: `KD_KERNEL(256, 2) void name(Arguments args) { ... }`. `threads` is the block's size,
/// `min_blocks` how many blocks shall fit on a multiprocessor (0: no wish).
#define KD_KERNEL(threads, min_blocks) extern "C" __global__ __launch_bounds__(threads, min_blocks)

/// After an entry: lets the emulator call it with an array of 8-byte words. Nothing for CUDA.
#define KD_ENTRY(name, Arguments) static_assert(sizeof(Arguments) % 8 == 0, "arguments are 8-byte words")

/// Shared memory of a block, 16-byte aligned: KD_SHARED(float, tile, 16 * 132); declares `float tile[16 * 132]`.
#define KD_SHARED(type, name, count) __shared__ __align__(16) type name[count]

/// The shared memory whose size the launch sets: KD_DYNAMIC_SHARED(float, tile); declares `float* tile`.
#define KD_DYNAMIC_SHARED(type, name)                                 \
  extern __shared__ __align__(128) unsigned char kd_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(kd_dynamic_shared)
#endif

namespace kdagen_device {

constexpr float largest_float = 3.4028235e+38f;

// ---- Storage types -------------------------------------------------------------------------------------------

/// 1 sign, 8 exponent, 7 fraction bits: the upper half of a float.
struct bf16 {
  unsigned short bits;
};

/// IEEE binary16: 1 sign, 5 exponent, 10 fraction bits.
struct fp16 {
  unsigned short bits;
};

KD_FUNCTION float to_float(float x) { return x; }
KD_FUNCTION float to_float(signed char x) { return static_cast<float>(x); }
KD_FUNCTION float to_float(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }

KD_FUNCTION float to_float(fp16 x) {
#ifdef KDAGEN_EMULATOR
  // value = fraction * 2^-24 for exponent 0 (zero and subnormals), else the exponent moves from bias 15 to bias 127.
  const unsigned sign = static_cast<unsigned>(x.bits & 0x8000) << 16;
  const unsigned exponent = x.bits >> 10 & 31u, fraction = x.bits & 1023u;
  if (exponent == 0) return __uint_as_float(sign | __float_as_uint(static_cast<float>(fraction) * 0x1p-24f));
  const unsigned moved = exponent == 31 ? 255u : exponent + (127 - 15);
  return __uint_as_float(sign | moved << 23 | fraction << 13);
#else
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#endif
}

/// Rounds to T: nearest, ties to even, subnormals kept, overflow to infinity, any NaN to 0x7fff.
template <class T>
KD_FUNCTION T to(float x);

/// Two floats rounded to T side by side, `first` in the lower half.
template <class T>
KD_FUNCTION unsigned pack_two(float first, float second);

#ifndef KDAGEN_EMULATOR
template <>
KD_FUNCTION unsigned pack_two<bf16>(float first, float second) {
  unsigned y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  return y;
}

template <>
KD_FUNCTION unsigned pack_two<fp16>(float first, float second) {
  unsigned y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  return y;
}
#endif

template <>
KD_FUNCTION float to<float>(float x) {
  return x;
}

template <>
KD_FUNCTION bf16 to<bf16>(float x) {
#ifdef KDAGEN_EMULATOR
  // The bits below the kept half count 0x0000..0xffff; adding 0x7fff carries above one half, and adding the kept
  // half's last bit carries exactly one half when that bit is odd. The carry may run into the exponent: right too.
  const unsigned u = __float_as_uint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  return {static_cast<unsigned short>((u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
#else
  return {static_cast<unsigned short>(pack_two<bf16>(x, 0.0f))};  // several times as fast as a conversion of one number
#endif
}

template <>
KD_FUNCTION fp16 to<fp16>(float x) {
#ifdef KDAGEN_EMULATOR
  const unsigned u = __float_as_uint(x), magnitude = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
  if (magnitude > 0x7f800000u) return {0x7fff};
  unsigned rounded;
  if (magnitude >= 0x477ff000u) {  // 65520 and more: one half above the largest, ties away to the even infinity
    rounded = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: at 0.5 a float's last bit is 2^-24, fp16's smallest step
    rounded = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - __float_as_uint(0.5f);
  } else {  // as for bf16, with 13 bits dropped and the bias moved from 127 to 15
    rounded = (magnitude - ((127u - 15u) << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  return {static_cast<unsigned short>(sign | rounded)};
#else
  return {static_cast<unsigned short>(pack_two<fp16>(x, 0.0f))};
#endif
}

/// x rounded to T and widened again: to_float(to<T>(x)).
template <class T>
KD_FUNCTION float round_to(float x) {
  return to_float(to<T>(x));
}

#ifdef KDAGEN_EMULATOR
template <class T>
KD_FUNCTION unsigned pack_two(float first, float second) {
  return to<T>(first).bits | static_cast<unsigned>(to<T>(second).bits) << 16;
}
#else
/// The upper of two packed halves is a bf16 where a float has it: no shift is needed.
template <>
KD_FUNCTION float round_to<bf16>(float x) {
  return __uint_as_float(pack_two<bf16>(0.0f, x));
}
#endif

// ---- Approximations ------------------------------------------------------------------------------------------
}  // namespace kdagen_device
#include <kdagen/approximations.cuh>
namespace kdagen_device {

/// x * 2^n for -252 <= n <= 255, as x * 2^floor(n/2) * 2^ceil(n/2). Exact unless the result is subnormal or overflows.
KD_FUNCTION float scale_by_power_of_two(float x, int n) {
  const int half = n >> 1;
  return x * __uint_as_float(static_cast<unsigned>(half + 127) << 23) *
         __uint_as_float(static_cast<unsigned>(n - half + 127) << 23);
}

// ---- Views of global memory ----------------------------------------------------------------------------------

/// A tensor with one row of features per (batch row, token, head). Strides count elements; features lie side by side.
template <class T>
struct Rows {
  T* data;
  long long batch, token, head;

  KD_FUNCTION T* at(long long b, long long t, long long h) const { return data + b * batch + t * token + h * head; }
};

/// A tensor stored tile by tile: one row of features per (head, tile, row of the tile).
template <class T>
struct Tiles {
  T* data;
  long long head, tile, row;

  KD_FUNCTION T* at(long long h, long long n, long long r) const { return data + h * head + n * tile + r * row; }
};

// ---- Four elements at a time ---------------------------------------------------------------------------------

struct alignas(16) Four32 {
  float x, y, z, w;
};

/// Four 16-bit elements in memory order: lower half of `lower` first.
struct alignas(8) Four16 {
  unsigned lower, upper;
};

/// A GPU stops at a misaligned vector access; the emulator reports it.
KD_FUNCTION void require_alignment(const void* address, unsigned bytes) {
#ifdef KDAGEN_EMULATOR
  kdagen_emulator_require_alignment(address, bytes);
#endif
}

template <class T>
KD_FUNCTION void load4_aligned(const T* from, float* out) {
  require_alignment(from, sizeof(Four16));
  const Four16 four = *reinterpret_cast<const Four16*>(from);
  out[0] = to_float(T{static_cast<unsigned short>(four.lower)});
  out[1] = to_float(T{static_cast<unsigned short>(four.lower >> 16)});
  out[2] = to_float(T{static_cast<unsigned short>(four.upper)});
  out[3] = to_float(T{static_cast<unsigned short>(four.upper >> 16)});
}

KD_FUNCTION void load4_aligned(const float* from, float* out) {
  require_alignment(from, sizeof(Four32));
  const Four32 four = *reinterpret_cast<const Four32*>(from);
  out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
}

template <class T>
KD_FUNCTION void store4_aligned(T* to_where, const float* in) {
  require_alignment(to_where, sizeof(Four16));
  *reinterpret_cast<Four16*>(to_where) = Four16{pack_two<T>(in[0], in[1]), pack_two<T>(in[2], in[3])};
}

KD_FUNCTION void store4_aligned(float* to_where, const float* in) {
  require_alignment(to_where, sizeof(Four32));
  *reinterpret_cast<Four32*>(to_where) = Four32{in[0], in[1], in[2], in[3]};
}

/// out[0..3] = from[0..3] as floats; T is bf16, fp16 or float. `aligned`: `from` is a multiple of four elements'
/// size, and one 8- or 16-byte access fetches them; else four accesses of one element.
template <bool aligned, class T>
KD_FUNCTION void load4(const T* from, float* out) {
  if constexpr (aligned) {
    load4_aligned(from, out);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = to_float(from[i]);
  }
}

/// to_where[0..3] = in[0..3] rounded to T, with load4's meaning of `aligned`.
template <bool aligned, class T>
KD_FUNCTION void store4(T* to_where, const float* in) {
  if constexpr (aligned) {
    store4_aligned(to_where, in);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) to_where[i] = to<T>(in[i]);
  }
}

/// Truth values lie in memory as 1 and 0.
template <bool aligned>
KD_FUNCTION void store4(float* to_where, const bool* in) {
  const float numbers[4] = {in[0] ? 1.0f : 0.0f, in[1] ? 1.0f : 0.0f, in[2] ? 1.0f : 0.0f, in[3] ? 1.0f : 0.0f};
  store4<aligned>(to_where, numbers);
}

// ---- Cooperation of threads (the emulator brings its own) -----------------------------------------------------
#ifndef KDAGEN_EMULATOR
/// All threads of the block meet; what they wrote to shared and global memory before is seen by all after.
KD_FUNCTION void block_barrier() { __syncthreads(); }

/// The same for the 32 lanes of a warp.
KD_FUNCTION void warp_barrier() { __syncwarp(); }

/// The value that lane (own lane ^ mask) hands over in the same call. All 32 lanes take part. Orders no memory.
template <class T>
KD_FUNCTION T lane_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
#endif

/// Whether the condition holds in a lane of the warp. All its lanes take part.
KD_FUNCTION bool any_lane(bool condition) {
#ifndef KDAGEN_EMULATOR
  return __any_sync(0xffffffffu, condition);
#else
  int any = condition;
  for (int mask = 1; mask < 32; mask *= 2) any |= lane_xor(any, mask);
  return any != 0;
#endif
}

// ---- Tiles: chunks of sequences, numbered densely in sequence order ---------------------------------------------

/// One tile: `rows` rows from (batch, token) on.
struct Tile {
  long long batch, token;
  int rows;
};

/// Tile `number` (below 2^32) of `batch` rows of `tokens` tokens each.
KD_FUNCTION Tile find_tile(long long number, int chunk, long long tokens) {
  const unsigned a_row = static_cast<unsigned>((tokens + chunk - 1) / chunk),
                 batch = static_cast<unsigned>(number) / a_row;
  const long long token = (number - static_cast<long long>(batch) * a_row) * chunk, rest = tokens - token;
  return Tile{batch, token, static_cast<int>(rest < chunk ? rest : chunk)};
}

/// The packed sequence that has tile `number`: sequence s has the tiles first_tile[s]..first_tile[s+1]-1, none if it is
/// empty. `number` is below first_tile[sequences]: the tiles from there on have no rows of a sequence.
KD_FUNCTION long long sequence_of_tile(long long number, long long sequences, const long long* first_tile) {
  long long low = 0, high = sequences;  // first_tile[low] <= number < first_tile[high]
#pragma unroll 1
  while (high - low > 1) {
    const long long middle = (low + high) / 2;
    if (first_tile[middle] <= number)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/// Tile `number` of packed sequences; sequence s begins at token sequence_start[s]. Both tables have sequences + 1
/// entries.
KD_FUNCTION Tile find_packed_tile(long long number, int chunk, long long sequences, const long long* first_tile,
                                  const long long* sequence_start) {
  const long long s = sequence_of_tile(number, sequences, first_tile);
  const long long token = sequence_start[s] + (number - first_tile[s]) * chunk, rest = sequence_start[s + 1] - token;
  return Tile{0, token, static_cast<int>(rest < chunk ? rest : chunk)};
}

/// Tile `number` after the last sequence, a surplus tile: its rows, as far as the buffer has them, belong to no
/// sequence.
KD_FUNCTION Tile find_surplus_tile(long long number, int chunk, long long tokens, long long sequences,
                                   const long long* first_tile, const long long* sequence_start) {
  const long long token = sequence_start[sequences] + (number - first_tile[sequences]) * chunk, rest = tokens - token;
  return Tile{0, token, static_cast<int>(rest < 0 ? 0 : rest < chunk ? rest : chunk)};
}

/// The caller's offsets of packed sequences, of `bytes` (4 or 8) each.
struct Offsets {
  const void* cu_seqlens;
  long long bytes, tokens;

  /// Kept inside the buffer, so that a bad table cannot lead outside.
  KD_FUNCTION long long at(long long s) const {
    const long long offset =
        bytes == 8 ? static_cast<const long long*>(cu_seqlens)[s] : static_cast<const int*>(cu_seqlens)[s];
    return offset < 0 ? 0 : offset > tokens ? tokens : offset;
  }
};

/// Fills first_tile and sequence_start (sequences + 1 entries each) by one block of 256 threads: every thread counts
/// the tiles of a run of sequences, then adds the runs before. `counts`: 256 numbers in shared memory.
KD_FUNCTION void write_first_tiles(const Offsets& offsets, long long sequences, int chunk, long long* first_tile,
                                   long long* sequence_start, long long* counts) {
  const int thread = static_cast<int>(threadIdx.x);
  const long long run = (sequences + 255) / 256;
  const long long begin = thread * run < sequences ? thread * run : sequences;
  const long long end = begin + run < sequences ? begin + run : sequences;
  long long count = 0, start = offsets.at(begin);
#pragma unroll 1
  for (long long s = begin; s < end; ++s) {
    const long long next = offsets.at(s + 1), length = next - start;
    first_tile[s] = count;
    sequence_start[s] = start;
    count += length > 0 ? (length + chunk - 1) / chunk : 0;
    start = next;
  }
  counts[thread] = count;
  block_barrier();
  long long before = 0;
#pragma unroll 1
  for (int other = 0; other < thread; ++other) before += counts[other];
#pragma unroll 1
  for (long long s = begin; s < end; ++s) first_tile[s] += before;
  if (thread == 255) {
    first_tile[sequences] = before + count;
    sequence_start[sequences] = start;
  }
}

}  // namespace kdagen_device
#include <kdagen/sums.cuh>

using namespace kdagen_device;
