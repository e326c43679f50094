// SPDX-License-Identifier: Apache-2.0
// rmsnorm backward, derived: y = weight * x / sqrt(mean(x^2) + eps)
//   spec aaed5aa5f84a7742  sm_90  tile 16 rows x 128 columns in 1 step  threads=256,tiles_per_block=8,min_blocks=4,heads_fastest=1,stages=2
//   remake: kdagen emit rmsnorm --pass bwd
//
//   inv = rsqrt(sum_d(x*x)*0.0078125 + eps)                                                              [spec:12]
//   dweight = sum_h(sum_{b,n}(sum_t(dy*(x*inv))))    -> param gradient, f32                              [spec:13]
//   dx = (dy*weight - x*inv*(sum_d(dy*weight*(x*inv))*0.0078125))*inv    -> bf16                         [spec:10]
#include <kdagen/device.cuh>
#include <kdagen/staging.cuh>

constexpr float eps = 1e-06f;  // eps

struct Arguments {
  TensorMap x_map;  // for the copy engine
  TensorMap dy_map;  // for the copy engine
  Rows<const bf16> x;  // input [t, h, d]
  const float* weight;  // param [d]
  Rows<const float> dy;  // cotangent [t, h, d]
  Rows<bf16> dx;  // gradient [t, h, d]
  float* dweight;  // param_gradient [d]
  long long* first_tile;  // workspace
  long long* sequence_start;  // workspace
  float* _sum_total_dy_x_inv_sum_partial;  // workspace
  float* _sum_total_dy_x_inv_sum_columns;  // workspace
  const void* cu_seqlens;  // null: batch rows of equal length
  long long offset_bytes;
  long long tokens;
  long long heads;
  long long sequences;
  long long tiles;
  long long segments;
};

/// What thread 0 says of the tile in a slot: where it lies, and where its first row is in the tensors that are not staged.
struct Slot {
  StagedTile tile;
  bf16* dx;
};

// Row map: 16 lanes a row; lane l owns the columns 4l..4l+3 (x[0..3]) and 64+4l..64+4l+3 (x[4..7]).
/// A lane's eight columns of a row; 0 where the row or the column is absent.
template <bool aligned, class T>
KD_FUNCTION void load_row(const T* from, int lane, bool present, float (&x)[8]) {
  #pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = 0.0f;
  const T* const place = from + 4 * lane;
  if (present) load4<aligned>(place, &x[0]);
  if (present) load4<aligned>(place + 64, &x[4]);
}

template <bool aligned, class T>
KD_FUNCTION void store_row(T* to_where, int lane, const float (&x)[8]) {
  T* const place = to_where + 4 * lane;
  store4<aligned>(place, &x[0]);
  store4<aligned>(place + 64, &x[4]);
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

/// rsqrt(factor * sum x^2 + eps) of a row. Where the sum is no finite number, that of x * 2^-72, times 2^-72; eps is nothing beside it.
KD_FUNCTION float row_inverse_norm(const float (&x)[8], float factor, float eps, int lane) {
  const float squares = row_dot(x, x, lane);
  float inverse = approx_rsqrt_normal(squares * factor + eps);
  const bool finite = squares <= 3.4028235e38f;
  if (any_lane(!finite)) {
    float small[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) small[i] = scale_by_power_of_two(x[i], -72);
    const float other = scale_by_power_of_two(approx_rsqrt(row_dot(small, small, lane) * factor), -72);
    if (!finite) inverse = other;
  }
  return inverse;
}

KD_KERNEL(256, 0) void rmsnorm_bwd_first_tile(const __grid_constant__ Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(Offsets{arguments.cu_seqlens, arguments.offset_bytes, arguments.tokens}, arguments.sequences, 16,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(rmsnorm_bwd_first_tile, Arguments);

/// Asks for the operands of tile `number`, one of the block's tiles begin..end-1. aligned: thread 0 asks the copy engine,
/// and whoever waits for the slot's counter sees them. Else all threads copy; seen after a barrier.
template <bool aligned>
KD_FUNCTION void rmsnorm_bwd_stage(const Arguments& arguments, float* shared, long long head, long long number, long long begin, long long end, int slot, int record) {
  if (number >= end || (aligned && threadIdx.x != 0)) return;
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 2304);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 2308);
  Slot& next = slots[record];
  (void)arrivals, (void)head;
  if (threadIdx.x == 0) {
    const long long* const sequence_start = arguments.cu_seqlens != nullptr ? arguments.sequence_start : nullptr;
    const Slot before = slots[record == 0 ? 2 : record - 1];
    Slot made = before;
    const StagedTile where = next_staged_tile(before.tile, 16, sequence_start);
    made.tile = where;
    if (number != begin && where.batch == before.tile.batch && where.sequence == before.tile.sequence) {
      // the next 16 rows of the same sequence
      made.dx = before.dx + 16 * arguments.dx.token;
    }
    else {
      made.dx = arguments.dx.at(where.batch, where.token, head);
    }
    next = made;
  }
  if constexpr (!aligned) block_barrier();  // the record is complete
  const Tile tile = tile_of(next.tile);
  float* const operands = shared + 2368 + slot * 3072;
  if constexpr (aligned) {
    expect_bytes(&arrivals[slot], 12288, &next);
    fetch_box(operands + 0, arguments.x_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 1024, arguments.dy_map, tile.token, head, tile.batch, &arrivals[slot]);
  }
  else {
    copy_box(reinterpret_cast<bf16*>(operands + 0), arguments.x.at(tile.batch, tile.token, head), arguments.x.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<float*>(operands + 1024), arguments.dy.at(tile.batch, tile.token, head), arguments.dy.token, tile.rows, 16, 128, 256);
  }
}

template <bool aligned>
KD_FUNCTION void rmsnorm_bwd_tiles(const Arguments& arguments, float* shared) {
  // Row map: 16 lanes a row, 16 rows at a time.
  const int lane = static_cast<int>(threadIdx.x % 16), step_row = static_cast<int>(threadIdx.x / 16);
  // Column map: one column, one block of 8 rows.
  const int column = static_cast<int>(threadIdx.x % 128), block = static_cast<int>(threadIdx.x / 128);
  const int row = step_row, first_row = 8 * block;
  (void)lane, (void)row, (void)column, (void)first_row;
  float* const _dy_x_inv_blocks = shared + 2048;
  float* const _dy_x_inv_shared = shared + 0;
  const unsigned heads = static_cast<unsigned>(arguments.heads), head_number = blockIdx.x % heads, group_number = blockIdx.x / heads;
  const long long head = head_number, group = group_number;
  (void)shared, (void)head;
  const long long begin = group * 8, end = begin + 8 < arguments.tiles ? begin + 8 : arguments.tiles;
  // Tiles from `used` on lie after the last sequence.
  const long long used = arguments.cu_seqlens != nullptr ? arguments.first_tile[arguments.sequences] : arguments.tiles;
  const long long used_end = used < end ? used : end;
  // Operands travel 2 tiles ahead.
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 2304);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 2308);
  if (threadIdx.x == 0) {
    if constexpr (aligned) {
      for (int slot = 0; slot < 2; ++slot) initialise_arrival(&arrivals[slot]);
      publish_arrivals();
    }
    const long long* const first_tile = arguments.cu_seqlens != nullptr ? arguments.first_tile : nullptr;
    // the first tile is found as the one after this
    if (begin < used_end) slots[2] = Slot{staged_tile_before(begin, 16, arguments.tokens, arguments.sequences, first_tile, arguments.sequence_start)};
  }
  block_barrier();  // arrivals is complete
  for (int ahead = 0; ahead < 2; ++ahead) rmsnorm_bwd_stage<aligned>(arguments, shared, head, begin + ahead, begin, used_end, ahead, ahead);
  // One record more than slots: the last tile's is read to its end, while the next operands are asked for.
  int slot = 0, record = 0;
  unsigned phase = 0;
  float weight[8];                                                      // [rmsnorm.cpp:11]
  load_row<aligned>(arguments.weight, lane, true, weight);
  float _sum_total_dy_x_inv_sum = 0.0f;
  for (long long number = begin; number < used_end; ++number, next_slot(slot, phase, 2), record = record == 2 ? 0 : record + 1) {
    if constexpr (aligned) wait_for(&arrivals[slot], phase);
    else block_barrier();  // the slot is complete
    const Slot& here = slots[record];
    const Tile tile = tile_of(here.tile);
    const int rows_here = tile.rows - first_row;  // rows of this thread's block that are there: i < rows_here
    (void)rows_here;

    const float* const operands = shared + 2368 + slot * 3072;
    const bf16* const x_staged = reinterpret_cast<const bf16*>(operands);
    const float* const dy_staged = operands + 1024;
    float x[8];                                                         // [rmsnorm.cpp:10]
    load_row<true>((x_staged + row * 128), lane, true, x);
    const float inv = row_inverse_norm(x, 0.0078125f, eps, lane);       // [rmsnorm.cpp:12]
    float dy[8];                                                        // [rmsnorm.cpp:13]
    load_row<true>((dy_staged + row * 128), lane, true, dy);
    float _dy_weight[8];
    float _x_inv[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      _dy_weight[i] = dy[i] * weight[i];                                // [rmsnorm.cpp:13]
      _x_inv[i] = x[i] * inv;                                           // [rmsnorm.cpp:13]
    }
    const float _row_sum_dy_weight_x_inv = row_dot(_dy_weight, _x_inv, lane);           // [rmsnorm.cpp:10]
    float _minus_x_inv[8];
    float _dy_x_inv[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      _minus_x_inv[i] = -_x_inv[i];                                     // [rmsnorm.cpp:13]
      _dy_x_inv[i] = dy[i] * _x_inv[i];                                 // [rmsnorm.cpp:13]
    }
    const float _mul_dy = _row_sum_dy_weight_x_inv * 0.0078125f;        // [rmsnorm.cpp:10]
    float dx[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      dx[i] = fmaf(_minus_x_inv[i], _mul_dy, _dy_weight[i]) * inv;      // [rmsnorm.cpp:10]
    }
    if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.dx, arguments.dx.token, row), lane, dx);  // [rmsnorm.cpp:10]
    store4<true>(&_dy_x_inv_shared[row * 128 + 4 * lane], &_dy_x_inv[0]);
    store4<true>(&_dy_x_inv_shared[row * 128 + 64 + 4 * lane], &_dy_x_inv[4]);
    block_barrier();  // _dy_x_inv_shared is complete
    rmsnorm_bwd_stage<aligned>(arguments, shared, head, number + 2, begin, used_end, slot, record == 0 ? 2 : record - 1);
    float _dy_x_inv_column[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) _dy_x_inv_column[i] = _dy_x_inv_shared[(first_row + i) * 128 + column];
    // sum over the rows of _dy_x_inv: blocks of 8 rows first           // [rmsnorm.cpp:13]
    float _total_dy_x_inv_block = 0.0f;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < rows_here) _total_dy_x_inv_block = i == 0 ? _dy_x_inv_column[i] : _total_dy_x_inv_block + _dy_x_inv_column[i];
    }
    _dy_x_inv_blocks[block * 128 + column] = _total_dy_x_inv_block;
    block_barrier();  // _dy_x_inv_blocks is complete
    float _total_dy_x_inv = _dy_x_inv_blocks[column];                   // [rmsnorm.cpp:13]
    #pragma unroll
    for (int b = 1; b < 2; ++b) _total_dy_x_inv += _dy_x_inv_blocks[b * 128 + column];
    _sum_total_dy_x_inv_sum += _total_dy_x_inv;                         // [rmsnorm.cpp:13]
  }
  if (block == 0) arguments._sum_total_dy_x_inv_sum_partial[(head * arguments.segments + group) * 128 + column] = _sum_total_dy_x_inv_sum;
  // After the last sequence: dead rows are set to 0.
  for (long long number = used_end < begin ? begin : used_end; number < end; ++number) {
    const Tile tile = find_surplus_tile(number, 16, arguments.tokens, arguments.sequences, arguments.first_tile, arguments.sequence_start);
    const float zeros[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int row = step_row; row < tile.rows; row += 16) {
      store_row<aligned>(arguments.dx.at(tile.batch, tile.token + row, head), lane, zeros);
    }
  }
}

#if KD_ALIGNED_VARIANT
KD_KERNEL(256, 4) void rmsnorm_bwd(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  rmsnorm_bwd_tiles<true>(arguments, shared);
}
KD_ENTRY(rmsnorm_bwd, Arguments);
#endif

#if KD_ANY_VARIANT
KD_KERNEL(256, 3) void rmsnorm_bwd_any(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  rmsnorm_bwd_tiles<false>(arguments, shared);
}
KD_ENTRY(rmsnorm_bwd_any, Arguments);
#endif

// Parameter sums, second stage: the segments (8 consecutive tiles of a head) by the balanced tree over their numbers.
KD_KERNEL(256, 0) void rmsnorm_bwd_segments(const Arguments arguments) {
  KD_SHARED(float, parts, 256);
  const long long head = blockIdx.x % arguments.heads;
  const int column = static_cast<int>(blockIdx.x / arguments.heads) * 32 + static_cast<int>(threadIdx.x % 32);
  const int width = 128;
  const float* const terms = arguments._sum_total_dy_x_inv_sum_partial;
  float* const results = arguments._sum_total_dy_x_inv_sum_columns;
  const float* const first_term = terms + head * arguments.segments * width + column;
  sum_segments(arguments.segments, column < width, parts, results + head * width + column, [&](long long segment) {
    return first_term[segment * width];
  });
}
KD_ENTRY(rmsnorm_bwd_segments, Arguments);

// Parameter sums, last stage: features, heads, and the adjoints of values made of parameters alone. One row of lanes.
template <bool aligned>
KD_FUNCTION void rmsnorm_bwd_finish_body(const Arguments& arguments) {
  const int lane = static_cast<int>(threadIdx.x % 16);
  (void)lane;
  float dweight[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  for (long long head = 0; head < arguments.heads; ++head) {
    (void)head;
    float _sum_total_dy_x_inv[8];
    load4<true>(arguments._sum_total_dy_x_inv_sum_columns + head * 128 + 4 * lane, &_sum_total_dy_x_inv[0]);
    load4<true>(arguments._sum_total_dy_x_inv_sum_columns + head * 128 + 64 + 4 * lane, &_sum_total_dy_x_inv[4]);
    for (int i = 0; i < 8; ++i) dweight[i] += _sum_total_dy_x_inv[i];
  }
  const long long head = 0;
  (void)head;
  if (head == 0 && threadIdx.x < 16) store_row<aligned>(arguments.dweight, lane, dweight);          // [rmsnorm.cpp:11]
}

#if KD_ALIGNED_VARIANT
KD_KERNEL(32, 0) void rmsnorm_bwd_finish(const Arguments arguments) { rmsnorm_bwd_finish_body<true>(arguments); }
KD_ENTRY(rmsnorm_bwd_finish, Arguments);
#endif
#if KD_ANY_VARIANT
KD_KERNEL(32, 0) void rmsnorm_bwd_finish_any(const Arguments arguments) { rmsnorm_bwd_finish_body<false>(arguments); }
KD_ENTRY(rmsnorm_bwd_finish_any, Arguments);
#endif
