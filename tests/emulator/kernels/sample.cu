// SPDX-License-Identifier: Apache-2.0
// A small kernel with the habits of emitted ones (a row phase, a column phase, shared memory, shuffles), and copies of
// it with one fault each. A trailing comment "// at: NAME" marks the line that a report on fault NAME must give.
#include <kdagen/device.cuh>

struct Arguments {
  Rows<const bf16> x;   // [T, 1, 128]
  Rows<float> y;        // [T, 1, 128]: x * 1/sqrt(sum x^2 + 1), summed over the rows of a tile up to the own one
  Tiles<bf16> last;     // [1, tiles, 128]: the last valid row of y
  const float* weight;  // [1], multiplies y
  float* total;         // [tiles]: sum of `last`
  long long tokens;
};

enum class Fault {
  none,
  missing_barrier,
  missing_warp_barrier,
  read_then_write,
  blocks_write_one_place,
  block_reads_another,
  uninitialised_shared,
  uninitialised_output,
  past_the_end,
  before_the_start,
  past_shared_pointer,
  shared_index,
  misaligned,
  read_only,
  null_pointer,
  divergent_barrier,
  two_barriers,
  early_return,
  partial_shuffle,
  two_shuffles,
  returned_lanes,
  shuffle_against_barrier,
  overflow,
  shift,
  division,
  misaligned_cast,
  stale_shared
};

constexpr int rows = 8, columns = 128, stride = columns + 4;

template <Fault fault>
KD_FUNCTION void row_phase(const Arguments& a, float* tile, int valid) {
  const int row = threadIdx.x / 32, lane = threadIdx.x % 32;
  const long long t = static_cast<long long>(blockIdx.x) * rows + row;
  float x[4] = {};
  if constexpr (fault == Fault::misaligned) {
    if (row < valid) load4<true>(a.x.at(0, t, 0) + 4 * lane + 1, x);  // at: misaligned
  } else {
    if (row < valid) load4<true>(a.x.at(0, t, 0) + 4 * lane, x);
  }
  float sum = fmaf(x[1], x[1], x[0] * x[0]) + fmaf(x[3], x[3], x[2] * x[2]);
#pragma unroll
  for (int mask = 1; mask < 32; mask *= 2) {
    if constexpr (fault == Fault::partial_shuffle) {
      if (lane < 16) sum += lane_xor(sum, mask);  // at: partial_shuffle
    } else if constexpr (fault == Fault::two_shuffles) {
      if (lane < 16) {
        sum += lane_xor(sum, mask);
      } else {
        sum += lane_xor(sum, mask);  // at: two_shuffles
      }
    } else {
      sum += lane_xor(sum, mask);
    }
  }
  const float inverse = approx_rsqrt(sum + 1.0f);
  for (int i = 0; i < 4; ++i) x[i] *= inverse;
  if constexpr (fault == Fault::uninitialised_shared) {
    if (row == 3) return;
  }
  store4<true>(tile + row * stride + 4 * lane, x);
}

template <Fault fault>
KD_FUNCTION float column_phase(const Arguments& a, float* tile, int valid) {
  const int column = threadIdx.x;
  float sum = 0.0f;
  for (int row = 0; row < valid; ++row) {
    sum += tile[row * stride + column];  // at: column_phase
    *(a.y.at(0, static_cast<long long>(blockIdx.x) * rows + row, 0) + column) = sum * a.weight[0];
    if constexpr (fault == Fault::read_then_write) tile[row * stride + (column ^ 64)] = 0.0f;  // at: read_then_write
  }
  const float last = sum * a.weight[0];
  *(a.last.at(0, blockIdx.x, 0) + column) = to<bf16>(last);
  return last;
}

template <Fault fault>
KD_FUNCTION void body(const Arguments& a) {
  KD_SHARED(float, tile, rows * stride);
  KD_SHARED(float, partial, columns);
  KD_DYNAMIC_SHARED(float, quarter);
  const int thread = threadIdx.x;
  const long long first = static_cast<long long>(blockIdx.x) * rows;
  const int valid = static_cast<int>(min(a.tokens - first, static_cast<long long>(rows)));
  if constexpr (fault == Fault::returned_lanes) {
    if (thread >= 240) return;
  }
  row_phase<fault>(a, tile, valid);
  if constexpr (fault == Fault::divergent_barrier) {
    if (thread < 128) block_barrier();  // at: divergent_barrier
  } else if constexpr (fault == Fault::two_barriers) {
    if (thread < 128) {
      block_barrier();
    } else {
      block_barrier();  // at: two_barriers
    }
  } else if constexpr (fault == Fault::early_return) {
    if (thread >= 200) return;
    block_barrier();  // at: early_return
  } else if constexpr (fault == Fault::shuffle_against_barrier) {
    if (thread % 32 < 16) lane_xor(0.0f, 1);  // at: shuffle_against_barrier
    block_barrier();
  } else if constexpr (fault != Fault::missing_barrier) {
    block_barrier();
  }
  if (thread < columns) {
    partial[thread] = column_phase<fault>(a, tile, valid);
    // The first lane of each warp adds a quarter of the columns.
    if constexpr (fault != Fault::missing_warp_barrier) warp_barrier();
    if (thread % 32 == 0) {
      float sum = 0.0f;
      for (int i = 0; i < 32; ++i) sum += partial[thread + i];  // at: missing_warp_barrier
      quarter[thread / 32] = sum;
    }
  }
  block_barrier();
  if (thread == 0) a.total[blockIdx.x] = (quarter[0] + quarter[1]) + (quarter[2] + quarter[3]);

  if constexpr (fault == Fault::blocks_write_one_place) {
    if (thread == 0) a.total[gridDim.x] = 1.0f;  // at: blocks_write_one_place
  }
  if constexpr (fault == Fault::block_reads_another) {
    const unsigned neighbour = blockIdx.x ^ 1u;
    float* const copy = a.total + gridDim.x + 1;
    if (thread == 0 && neighbour < gridDim.x) copy[blockIdx.x] = a.total[neighbour];  // at: block_reads_another
  }
  if constexpr (fault == Fault::uninitialised_output) {
    if (thread == 0 && blockIdx.x == 0) a.total[0] = a.total[gridDim.x];  // at: uninitialised_output
  }
  if constexpr (fault == Fault::past_the_end) a.y.at(0, a.tokens, 0)[thread] = 0.0f;    // at: past_the_end
  if constexpr (fault == Fault::before_the_start) a.y.at(0, 0, 0)[-1 - thread] = 0.0f;  // at: before_the_start
  if constexpr (fault == Fault::read_only) const_cast<float*>(a.weight)[0] = 1.0f;      // at: read_only
  if constexpr (fault == Fault::null_pointer) {
    const float* const none = nullptr;
    a.total[0] = none[thread];  // at: null_pointer
  }
  if constexpr (fault == Fault::past_shared_pointer) {
    const float* p = tile;
    p += 2 * static_cast<int>(a.tokens);
    a.total[0] = p[thread + rows * stride - 32];  // at: past_shared_pointer
  }
  if constexpr (fault == Fault::shared_index) partial[thread % 256] = 0.0f;  // at: shared_index
  if constexpr (fault == Fault::overflow) {
    const int offset = static_cast<int>(a.tokens) * 2000000000;  // at: overflow
    if (offset == 5) a.total[0] = 0.0f;
  }
  if constexpr (fault == Fault::shift) {
    if (1 << static_cast<int>(a.tokens) == 5) a.total[0] = 0.0f;  // at: shift
  }
  if constexpr (fault == Fault::division) {
    if (thread / static_cast<int>(a.tokens - a.tokens) == 5) a.total[0] = 0.0f;  // at: division
  }
  if constexpr (fault == Fault::misaligned_cast) {
    const auto* pairs = reinterpret_cast<const double*>(a.y.at(0, 0, 0) + 1);
    if (thread == 0 && pairs[0] == 5) a.total[0] = 0.0f;  // at: misaligned_cast
  }
  if constexpr (fault == Fault::stale_shared) {
    KD_SHARED(float, carried, 1);  // what the block before this one left there is gone
    if (thread == 0 && blockIdx.x > 0) a.total[blockIdx.x] += carried[0];  // at: stale_shared
    if (thread == 0) carried[0] = 1.0f;
  }
}

#define ENTRY(name)                                                                          \
  KD_KERNEL(256, 2) void name(const __grid_constant__ Arguments a) { body<Fault::name>(a); } \
  KD_ENTRY(name, Arguments);

ENTRY(none)
ENTRY(missing_barrier)
ENTRY(missing_warp_barrier)
ENTRY(read_then_write)
ENTRY(blocks_write_one_place)
ENTRY(block_reads_another)
ENTRY(uninitialised_shared)
ENTRY(uninitialised_output)
ENTRY(past_the_end)
ENTRY(before_the_start)
ENTRY(past_shared_pointer)
ENTRY(shared_index)
ENTRY(misaligned)
ENTRY(read_only)
ENTRY(null_pointer)
ENTRY(divergent_barrier)
ENTRY(two_barriers)
ENTRY(early_return)
ENTRY(partial_shuffle)
ENTRY(two_shuffles)
ENTRY(returned_lanes)
ENTRY(shuffle_against_barrier)
ENTRY(overflow)
ENTRY(shift)
ENTRY(division)
ENTRY(misaligned_cast)
ENTRY(stale_shared)
