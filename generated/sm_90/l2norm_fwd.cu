// SPDX-License-Identifier: Apache-2.0
// l2norm forward: y = x / sqrt(sum(x^2) + eps)
//   spec a34a05ef4ed127d1  sm_90  tile 16 rows x 128 columns in 1 step  threads=256,tiles_per_block=8,min_blocks=2,heads_fastest=1
//   remake: kdagen emit l2norm --pass fwd
//
//   y = x*rsqrt(sum_d(x*x) + eps)    -> bf16                                                             [spec:11]
#include <kdagen/device.cuh>

constexpr float eps = 1e-06f;  // eps

struct Arguments {
  Rows<const bf16> x;  // input [t, h, d]
  Rows<bf16> y;  // output [t, h, d]
  long long* first_tile;  // workspace
  long long* sequence_start;  // workspace
  const void* cu_seqlens;  // null: batch rows of equal length
  long long tokens;
  long long heads;
  long long sequences;
  long long tiles;
  long long segments;
};

// Row map: 16 lanes a row; lane l owns the columns 4l..4l+3 (x[0..3]) and 64+4l..64+4l+3 (x[4..7]).
/// A lane's eight columns of a row; 0 where the row or the column is absent.
template <bool aligned, class T>
KD_FUNCTION void load_row(const T* from, int lane, bool present, float (&x)[8]) {
  #pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = 0.0f;
  if (present) load4<aligned>(from + 4 * lane, &x[0]);
  if (present) load4<aligned>(from + 64 + 4 * lane, &x[4]);
}

template <bool aligned, class T>
KD_FUNCTION void store_row(T* to_where, int lane, const float (&x)[8]) {
  store4<aligned>(to_where + 4 * lane, &x[0]);
  store4<aligned>(to_where + 64 + 4 * lane, &x[4]);
}

/// Sum of products along a row: fma(x1, y1, x0*y0) for neighbouring columns, then as row_sum.
KD_FUNCTION float row_dot(const float (&x)[8], const float (&y)[8], int lane) {
  float pair[4];
  #pragma unroll
  for (int j = 0; j < 4; ++j) pair[j] = fmaf(x[2 * j + 1], y[2 * j + 1], x[2 * j] * y[2 * j]);
  float sum = (pair[0] + pair[1]) + (pair[2] + pair[3]);
  sum += lane_xor(sum, 1);  // every lane holds the sum of its group of 2 lanes
  sum += lane_xor(sum, 2);  // every lane holds the sum of its group of 4 lanes
  sum += lane_xor(sum, 4);  // every lane holds the sum of its group of 8 lanes
  sum += lane_xor(sum, 8);  // every lane holds the sum of its group of 16 lanes
  return sum;
}

KD_FUNCTION float row_dot(const float (&x)[8], float y, int lane) {
  float all[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) all[i] = y;
  return row_dot(x, all, lane);
}

KD_KERNEL(256, 0) void l2norm_fwd_first_tile_i32(const Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(static_cast<const int*>(arguments.cu_seqlens), arguments.sequences, arguments.tokens, 16,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(l2norm_fwd_first_tile_i32, Arguments);

KD_KERNEL(256, 0) void l2norm_fwd_first_tile_i64(const Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(static_cast<const long long*>(arguments.cu_seqlens), arguments.sequences, arguments.tokens, 16,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(l2norm_fwd_first_tile_i64, Arguments);

template <bool aligned>
KD_FUNCTION void l2norm_fwd_tiles(const Arguments& arguments, float* shared) {
  // Row map: 16 lanes a row, 16 rows at a time.
  const int lane = static_cast<int>(threadIdx.x) % 16, step_row = static_cast<int>(threadIdx.x) / 16;
  // Column map: one column, one block of 8 rows.
  const int column = static_cast<int>(threadIdx.x) % 128, block = static_cast<int>(threadIdx.x) / 128;
  const int row = step_row, first_row = 8 * block;
  (void)lane, (void)row, (void)column, (void)first_row;
  const long long groups = (arguments.tiles + 7) / 8;
  const long long head = blockIdx.x % arguments.heads, group = blockIdx.x / arguments.heads;
  (void)shared, (void)groups, (void)head;
  const long long segment = group;
  const long long first = segment * 8, last = first + 8 < arguments.tiles ? first + 8 : arguments.tiles;
  for (long long number = first; number < last; ++number) {
    const Tile tile = arguments.cu_seqlens != nullptr
        ? find_packed_tile(number, 16, arguments.tokens, arguments.sequences, arguments.first_tile, arguments.sequence_start)
        : find_tile(number, 16, arguments.tokens);
    if (tile.rows == 0) {
      // after the last sequence: dead rows are set to 0
      const float zeros[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
      for (int row = step_row; row < tile.clear; row += 16) {
        store_row<aligned>(arguments.y.at(tile.batch, tile.token + row, head), lane, zeros);
      }
      continue;
    }

    float x[8];                                                         // [l2norm.cpp:10]
    load_row<aligned>(arguments.x.at(tile.batch, tile.token + row, head), lane, row < tile.rows, x);
    const float _row_sum_x_x = row_dot(x, x, lane);                     // [l2norm.cpp:11]
    const float _rsqrt_row_sum_x_x = approx_rsqrt(_row_sum_x_x + eps);  // [l2norm.cpp:11]
    float y[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      y[i] = x[i] * _rsqrt_row_sum_x_x;                                 // [l2norm.cpp:11]
    }
    if (row < tile.rows) store_row<aligned>(arguments.y.at(tile.batch, tile.token + row, head), lane, y);  // [l2norm.cpp:11]
  }
}

KD_KERNEL(256, 2) void l2norm_fwd(const Arguments arguments) {
  KD_SHARED(float, shared, 4);
  l2norm_fwd_tiles<true>(arguments, shared);
}
KD_ENTRY(l2norm_fwd, Arguments);

KD_KERNEL(256, 2) void l2norm_fwd_any(const Arguments arguments) {
  KD_SHARED(float, shared, 4);
  l2norm_fwd_tiles<false>(arguments, shared);
}
KD_ENTRY(l2norm_fwd_any, Arguments);

