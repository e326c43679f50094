// SPDX-License-Identifier: Apache-2.0
// gdn forward: GDN preamble: scalar softplus gate, normalised q and k, beta
//   spec 0bea7fc42201e792  sm_90  tile 16 rows x 128 columns in 1 step  threads=256,tiles_per_block=8,min_blocks=2,heads_fastest=1
//   remake: kdagen emit gdn --pass fwd
//
//   g = -exp(A_log)*log2e*softplus(a_raw + dt_bias)                                                      [spec:14]
//   g_c = cumsum_t(g)    -> f32                                                                          [spec:15]
//   q_n = q*rsqrt(sum_d(q*q) + eps)    -> bf16                                                           [spec:16]
//   k_n = k*rsqrt(sum_d(k*k) + eps)    -> bf16                                                           [spec:17]
//   g_T = sum_t(g)    -> f32                                                                             [spec:15]
//   beta = sigmoid(beta_raw)    -> bf16                                                                  [spec:20]
#include <kdagen/device.cuh>

constexpr float eps = 1e-06f;  // eps
constexpr float log2e = 1.442695f;  // log2e

struct Arguments {
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

KD_KERNEL(256, 0) void gdn_fwd_first_tile_i32(const Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(static_cast<const int*>(arguments.cu_seqlens), arguments.sequences, arguments.tokens, 16,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(gdn_fwd_first_tile_i32, Arguments);

KD_KERNEL(256, 0) void gdn_fwd_first_tile_i64(const Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(static_cast<const long long*>(arguments.cu_seqlens), arguments.sequences, arguments.tokens, 16,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(gdn_fwd_first_tile_i64, Arguments);

template <bool aligned>
KD_FUNCTION void gdn_fwd_tiles(const Arguments& arguments, float* shared) {
  // Row map: 16 lanes a row, 16 rows at a time.
  const int lane = static_cast<int>(threadIdx.x) % 16, step_row = static_cast<int>(threadIdx.x) / 16;
  // Column map: one column, one block of 8 rows.
  const int column = static_cast<int>(threadIdx.x) % 128, block = static_cast<int>(threadIdx.x) / 128;
  const int row = step_row, first_row = 8 * block;
  (void)lane, (void)row, (void)column, (void)first_row;
  float* const g_shared = shared + 0;
  const long long groups = (arguments.tiles + 7) / 8;
  const long long head = blockIdx.x % arguments.heads, group = blockIdx.x / arguments.heads;
  (void)shared, (void)groups, (void)head;
  const float A_log = to_float(*(arguments.A_log + head));              // [gdn.cpp:12]
  const float _exp_A_log = expf(A_log);                                 // [gdn.cpp:14]
  const float _minus_exp_A_log = -_exp_A_log;                           // [gdn.cpp:14]
  const float _scaled_minus_exp_A_log = _minus_exp_A_log * log2e;       // [gdn.cpp:14]
  const float dt_bias = to_float(*(arguments.dt_bias + head));          // [gdn.cpp:12]
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
        store_row<aligned>(arguments.q_n.at(tile.batch, tile.token + row, head), lane, zeros);
        store_row<aligned>(arguments.k_n.at(tile.batch, tile.token + row, head), lane, zeros);
        if (lane == 0) *arguments.g_c.at(tile.batch, tile.token + row, head) = to<float>(0.0f);
        if (lane == 0) *arguments.beta.at(tile.batch, tile.token + row, head) = to<bf16>(0.0f);
      }
      if (step_row == 0 && lane == 0) *arguments.g_T.at(head, number, 0) = to<float>(0.0f);
      continue;
    }

    const float a_raw = row < tile.rows ? to_float(*(arguments.a_raw.at(tile.batch, tile.token + row, head))) : 0.0f;  // [gdn.cpp:11]
    const float _a_raw_plus_dt_bias = a_raw + dt_bias;                  // [gdn.cpp:14]
    const float g = _scaled_minus_exp_A_log * ((_a_raw_plus_dt_bias < 0.0f ? 0.0f : _a_raw_plus_dt_bias) + log1pf(approx_exp2(-fabsf(_a_raw_plus_dt_bias) * log2e)));  // [gdn.cpp:14]
    block_barrier();  // every thread is done with g_shared
    if (lane == 0) g_shared[row] = g;
    float q[8];                                                         // [gdn.cpp:10]
    load_row<aligned>(arguments.q.at(tile.batch, tile.token + row, head), lane, row < tile.rows, q);
    const float _row_sum_q_q = row_dot(q, q, lane);                     // [gdn.cpp:16]
    float k[8];                                                         // [gdn.cpp:10]
    load_row<aligned>(arguments.k.at(tile.batch, tile.token + row, head), lane, row < tile.rows, k);
    const float _row_sum_k_k = row_dot(k, k, lane);                     // [gdn.cpp:17]
    const float _rsqrt_row_sum_q_q = approx_rsqrt(_row_sum_q_q + eps);  // [gdn.cpp:16]
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
    const float beta_raw = row < tile.rows ? to_float(*(arguments.beta_raw.at(tile.batch, tile.token + row, head))) : 0.0f;  // [gdn.cpp:11]
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
    const float g_c = row_scan<false, false>(g_shared, row, tile.rows);                 // [gdn.cpp:15]
    const float g_T = row_total(g_shared, tile.rows);                   // [gdn.cpp:15]
    if (row < tile.rows && lane == 0) *(arguments.g_c.at(tile.batch, tile.token + row, head)) = to<float>(g_c);  // [gdn.cpp:18]
    if (threadIdx.x == 0) *(arguments.g_T.at(head, number, 0)) = to<float>(g_T);        // [gdn.cpp:19]
  }
}

KD_KERNEL(256, 2) void gdn_fwd(const Arguments arguments) {
  KD_SHARED(float, shared, 16);
  gdn_fwd_tiles<true>(arguments, shared);
}
KD_ENTRY(gdn_fwd, Arguments);

KD_KERNEL(256, 2) void gdn_fwd_any(const Arguments arguments) {
  KD_SHARED(float, shared, 16);
  gdn_fwd_tiles<false>(arguments, shared);
}
KD_ENTRY(gdn_fwd_any, Arguments);

