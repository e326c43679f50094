// SPDX-License-Identifier: Apache-2.0
// gdn forward: GDN preamble: scalar softplus gate, normalised q and k, beta
//   spec 0bea7fc42201e792  sm_90  tile 16 rows x 128 columns in 1 step  threads=256,tiles_per_block=8,min_blocks=2,heads_fastest=1,stages=2
//   remake: kdagen emit gdn --pass fwd
//
//   g = -exp(A_log)*log2e*softplus(a_raw + dt_bias)                                                      [spec:14]
//   g_c = cumsum_t(g)    -> f32                                                                          [spec:15]
//   q_n = q*rsqrt(sum_d(q*q) + eps)    -> bf16                                                           [spec:16]
//   k_n = k*rsqrt(sum_d(k*k) + eps)    -> bf16                                                           [spec:17]
//   g_T = sum_t(g)    -> f32                                                                             [spec:15]
//   beta = sigmoid(beta_raw)    -> bf16                                                                  [spec:20]
#include <kdagen/device.cuh>
#include <kdagen/staging.cuh>

constexpr float eps = 1e-06f;  // eps
constexpr float log2e = 1.442695f;  // log2e

struct Arguments {
  TensorMap q_map;  // for the copy engine
  TensorMap k_map;  // for the copy engine
  Rows<const bf16> q;  // input [t, h, d]
  Rows<const bf16> k;  // input [t, h, d]
  Rows<const bf16> a_raw;  // input [t, h]
  Rows<const bf16> beta_raw;  // input [t, h]
  const float* A_log;  // param [h]
  const float* dt_bias;  // param [h]
  Rows<bf16> q_n;  // output [t, h, d]
  Rows<bf16> k_n;  // output [t, h, d]
  Rows<float> g_c;  // output [t, h]
  Tiles<float> g_T;  // output [h]
  Rows<bf16> beta;  // output [t, h]
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

KD_KERNEL(256, 0) void gdn_fwd_first_tile_i32(const __grid_constant__ Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(static_cast<const int*>(arguments.cu_seqlens), arguments.sequences, arguments.tokens, 16,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(gdn_fwd_first_tile_i32, Arguments);

KD_KERNEL(256, 0) void gdn_fwd_first_tile_i64(const __grid_constant__ Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(static_cast<const long long*>(arguments.cu_seqlens), arguments.sequences, arguments.tokens, 16,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(gdn_fwd_first_tile_i64, Arguments);

/// Asks for the operands of tile `number`, one of the block's tiles begin..end-1. aligned: thread 0 asks the copy engine,
/// and whoever waits for the slot's counter sees them. Else all threads copy; seen after a barrier.
template <bool aligned>
KD_FUNCTION void gdn_fwd_stage(const Arguments& arguments, float* shared, long long head, long long number, long long begin, long long end, int slot) {
  if (number >= end || (aligned && threadIdx.x != 0)) return;
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 32);
  StagedTile* const staged_tiles = reinterpret_cast<StagedTile*>(shared + 36);
  (void)arrivals, (void)head;
  if (threadIdx.x == 0) {
    const long long* const first_tile = arguments.cu_seqlens != nullptr ? arguments.first_tile : nullptr;
    const StagedTile& before = staged_tiles[slot == 0 ? 1 : slot - 1];
    staged_tiles[slot] = number == begin
        ? find_staged_tile(number, 16, arguments.tokens, arguments.sequences, first_tile, arguments.sequence_start)
        : next_staged_tile(before, 16, arguments.tokens, arguments.sequences, first_tile, arguments.sequence_start);
  }
  if constexpr (!aligned) block_barrier();  // staged_tiles[slot] is complete
  const Tile tile = tile_of(staged_tiles[slot]);
  float* const operands = shared + 64 + slot * 2048;
  if constexpr (aligned) {
    expect_bytes(&arrivals[slot], tile.rows > 0 ? 8192 : 0, &staged_tiles[slot]);
    if (tile.rows == 0) return;
    fetch_box(operands + 0, arguments.q_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 1024, arguments.k_map, tile.token, head, tile.batch, &arrivals[slot]);
  }
  else {
    copy_box(reinterpret_cast<bf16*>(operands + 0), arguments.q.at(tile.batch, tile.token, head), arguments.q.token, tile.rows > 0 ? tile.rows : 0, 128, 256);
    copy_box(reinterpret_cast<bf16*>(operands + 1024), arguments.k.at(tile.batch, tile.token, head), arguments.k.token, tile.rows > 0 ? tile.rows : 0, 128, 256);
  }
}

template <bool aligned>
KD_FUNCTION void gdn_fwd_tiles(const Arguments& arguments, float* shared) {
  // Row map: 16 lanes a row, 16 rows at a time.
  const int lane = static_cast<int>(threadIdx.x) % 16, step_row = static_cast<int>(threadIdx.x) / 16;
  // Column map: one column, one block of 8 rows.
  const int column = static_cast<int>(threadIdx.x) % 128, block = static_cast<int>(threadIdx.x) / 128;
  const int row = step_row, first_row = 8 * block;
  (void)lane, (void)row, (void)column, (void)first_row;
  float* const g_shared = shared + 0;
  const unsigned heads = static_cast<unsigned>(arguments.heads), head_number = blockIdx.x % heads, group_number = blockIdx.x / heads;
  const long long head = head_number, group = group_number;
  (void)shared, (void)head;
  const long long begin = group * 8, end = begin + 8 < arguments.tiles ? begin + 8 : arguments.tiles;
  // Operands travel 2 tiles ahead.
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 32);
  const StagedTile* const staged_tiles = reinterpret_cast<StagedTile*>(shared + 36);
  if (aligned && threadIdx.x == 0) {
    for (int slot = 0; slot < 2; ++slot) initialise_arrival(&arrivals[slot]);
    publish_arrivals();
  }
  block_barrier();  // arrivals is complete
  for (int ahead = 0; ahead < 2; ++ahead) gdn_fwd_stage<aligned>(arguments, shared, head, begin + ahead, begin, end, ahead);
  int slot = 0;
  unsigned phase = 0;
  const float A_log = to_float(*(arguments.A_log + head));              // [gdn.cpp:12]
  const float _exp_A_log = expf(A_log);                                 // [gdn.cpp:14]
  const float _minus_exp_A_log = -_exp_A_log;                           // [gdn.cpp:14]
  const float _scaled_minus_exp_A_log = _minus_exp_A_log * log2e;       // [gdn.cpp:14]
  const float dt_bias = to_float(*(arguments.dt_bias + head));          // [gdn.cpp:12]
  const long long segment = group;
  const long long first = segment * 8, last = first + 8 < arguments.tiles ? first + 8 : arguments.tiles;
  for (long long number = first; number < last; ++number, next_slot(slot, phase, 2)) {
    if constexpr (aligned) wait_for(&arrivals[slot], phase);
    else block_barrier();  // the slot is complete
    const Tile tile = tile_of(staged_tiles[slot]);
    if (tile.rows == 0) {
      // after the last sequence: dead rows are set to 0
      const float zeros[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
      for (int row = step_row; row < tile.clear; row += 16) {
        store_row<aligned>(arguments.q_n.at(tile.batch, tile.token + row, head), lane, zeros);
        store_row<aligned>(arguments.k_n.at(tile.batch, tile.token + row, head), lane, zeros);
        if (lane == 0) *arguments.g_c.at(tile.batch, tile.token + row, head) = to<float>(0.0f);
        if (lane == 0) *arguments.beta.at(tile.batch, tile.token + row, head) = to<bf16>(0.0f);
      }
      if (step_row == 0 && lane == 0) *arguments.g_T.at(head, number, 0) = to<float>(0.0f);
      block_barrier();  // every thread has read where the tile lies
      gdn_fwd_stage<aligned>(arguments, shared, head, number + 2, begin, end, slot);
      continue;
    }
    const float* const operands = shared + 64 + slot * 2048;
    const bf16* const q_staged = reinterpret_cast<const bf16*>(operands);
    const bf16* const k_staged = reinterpret_cast<const bf16*>(operands + 1024);

    const float a_raw = row < tile.rows ? to_float(*(arguments.a_raw.at(tile.batch, tile.token + row, head))) : 0.0f;  // [gdn.cpp:11]
    const float beta_raw = row < tile.rows ? to_float(*(arguments.beta_raw.at(tile.batch, tile.token + row, head))) : 0.0f;  // [gdn.cpp:11]
    const float _5 = a_raw + dt_bias;                                   // [gdn.cpp:14]
    const float g = _4 * ((_5 < 0.0f ? 0.0f : _5) + log1pf(approx_exp2(-fabsf(_5) * log2e)));       // [gdn.cpp:14]
    block_barrier();  // every thread is done with g_shared
    if (lane == 0) g_shared[row] = g;
    float q[8];                                                         // [gdn.cpp:10]
    load_row<aligned>((q_staged + row * 128), lane, row < tile.rows, q);
    const float _14 = row_dot(q, q, lane);                              // [gdn.cpp:16]
    float k[8];                                                         // [gdn.cpp:10]
    load_row<aligned>((k_staged + row * 128), lane, row < tile.rows, k);
    const float _19 = row_dot(k, k, lane);                              // [gdn.cpp:17]
    const float _17 = approx_rsqrt(_14 + eps);                          // [gdn.cpp:16]
    float q_n[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      q_n[i] = q[i] * _rsqrt_row_sum_q_q;                               // [gdn.cpp:16]
    }
    if (row < tile.rows) store_row<aligned>(arguments.q_n.at(tile.batch, tile.token + row, head), lane, q_n);  // [gdn.cpp:16]
    const float _rsqrt_row_sum_k_k = approx_rsqrt(_row_sum_k_k + eps);  // [gdn.cpp:17]
    float k_n[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      k_n[i] = k[i] * _rsqrt_row_sum_k_k;                               // [gdn.cpp:17]
    }
    if (row < tile.rows) store_row<aligned>(arguments.k_n.at(tile.batch, tile.token + row, head), lane, k_n);  // [gdn.cpp:17]
    const bool beta_9 = 0.0f <= beta_raw;                               // [gdn.cpp:20]
    const float beta = fabsf(beta_raw);                                 // [gdn.cpp:20]
    const float beta_2 = -beta;                                         // [gdn.cpp:20]
    const float beta_3 = beta_2 * log2e;                                // [gdn.cpp:20]
    const float beta_4 = approx_exp2(beta_3);                           // [gdn.cpp:20]
    const float beta_6 = 1.0f + beta_4;                                 // [gdn.cpp:20]
    const float beta_7 = approx_rcp(beta_6);                            // [gdn.cpp:20]
    const float beta_10 = beta_4 * beta_7;                              // [gdn.cpp:20]
    const float beta_11 = beta_9 ? beta_7 : beta_10;                    // [gdn.cpp:20]
    if (row < tile.rows && lane == 0) *(arguments.beta.at(tile.batch, tile.token + row, head)) = to<bf16>(beta_11);  // [gdn.cpp:20]
    block_barrier();  // g_shared is complete
    gdn_fwd_stage<aligned>(arguments, shared, head, number + 2, begin, end, slot);
    const float g_c = row_scan<false, false>(g_shared, row, tile.rows);                 // [gdn.cpp:15]
    const float g_T = row_total(g_shared, tile.rows);                   // [gdn.cpp:15]
    if (row < tile.rows && lane == 0) *(arguments.g_c.at(tile.batch, tile.token + row, head)) = to<float>(g_c);  // [gdn.cpp:18]
    if (threadIdx.x == 0) *(arguments.g_T.at(head, number, 0)) = to<float>(g_T);        // [gdn.cpp:19]
  }
}

KD_KERNEL(256, 2) void gdn_fwd(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  gdn_fwd_tiles<true>(arguments, shared);
}
KD_ENTRY(gdn_fwd, Arguments);

KD_KERNEL(256, 2) void gdn_fwd_any(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  gdn_fwd_tiles<false>(arguments, shared);
}
KD_ENTRY(gdn_fwd_any, Arguments);

