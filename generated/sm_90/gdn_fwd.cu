// SPDX-License-Identifier: Apache-2.0
// gdn forward: GDN preamble: scalar softplus gate, normalised q and k, beta
//   spec d176dc5216358f88  sm_90  tile 16 rows x 128 columns in 1 step  threads=256,tiles_per_block=4,min_blocks=4,heads_fastest=1,stages=2
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
  bf16* q_n;
  bf16* k_n;
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

KD_KERNEL(256, 0) void gdn_fwd_first_tile(const __grid_constant__ Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(Offsets{arguments.cu_seqlens, arguments.offset_bytes, arguments.tokens}, arguments.sequences, 16,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(gdn_fwd_first_tile, Arguments);

/// Asks for the operands of tile `number`, one of the block's tiles begin..end-1. aligned: thread 0 asks the copy engine,
/// and whoever waits for the slot's counter sees them. Else all threads copy; seen after a barrier.
template <bool aligned>
KD_FUNCTION void gdn_fwd_stage(const Arguments& arguments, float* shared, long long head, long long number, long long begin, long long end, int slot, int record) {
  if (number >= end || (aligned && threadIdx.x != 0)) return;
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 256);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 260);
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
      made.q_n = before.q_n + 16 * arguments.q_n.token;
      made.k_n = before.k_n + 16 * arguments.k_n.token;
    }
    else {
      made.q_n = arguments.q_n.at(where.batch, where.token, head);
      made.k_n = arguments.k_n.at(where.batch, where.token, head);
    }
    next = made;
  }
  if constexpr (!aligned) block_barrier();  // the record is complete
  const Tile tile = tile_of(next.tile);
  float* const operands = shared + 320 + slot * 2048;
  if constexpr (aligned) {
    expect_bytes(&arrivals[slot], 8192, &next);
    fetch_box(operands + 0, arguments.q_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 1024, arguments.k_map, tile.token, head, tile.batch, &arrivals[slot]);
  }
  else {
    copy_box(reinterpret_cast<bf16*>(operands + 0), arguments.q.at(tile.batch, tile.token, head), arguments.q.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<bf16*>(operands + 1024), arguments.k.at(tile.batch, tile.token, head), arguments.k.token, tile.rows, 16, 128, 256);
  }
}

template <bool aligned>
KD_FUNCTION void gdn_fwd_tiles(const Arguments& arguments, float* shared) {
  // Row map: 16 lanes a row, 16 rows at a time.
  const int lane = static_cast<int>(threadIdx.x % 16), step_row = static_cast<int>(threadIdx.x / 16);
  // Column map: one column, one block of 8 rows.
  const int column = static_cast<int>(threadIdx.x % 128), block = static_cast<int>(threadIdx.x / 128);
  const int row = step_row, first_row = 8 * block;
  (void)lane, (void)row, (void)column, (void)first_row;
  float* const g_shared = shared + 0;
  const unsigned heads = static_cast<unsigned>(arguments.heads), head_number = blockIdx.x % heads, group_number = blockIdx.x / heads;
  const long long head = head_number, group = group_number;
  (void)shared, (void)head;
  const long long begin = group * 4, end = begin + 4 < arguments.tiles ? begin + 4 : arguments.tiles;
  // Tiles from `used` on lie after the last sequence.
  const long long used = arguments.cu_seqlens != nullptr ? arguments.first_tile[arguments.sequences] : arguments.tiles;
  const long long used_end = used < end ? used : end;
  // Operands travel 2 tiles ahead.
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 256);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 260);
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
  for (int ahead = 0; ahead < 2; ++ahead) gdn_fwd_stage<aligned>(arguments, shared, head, begin + ahead, begin, used_end, ahead, ahead);
  // One record more than slots: the last tile's is read to its end, while the next operands are asked for.
  int slot = 0, record = 0;
  unsigned phase = 0;
  const float dt_bias = to_float(*(arguments.dt_bias + head));          // [gdn.cpp:12]
  const float A_log = to_float(*(arguments.A_log + head));              // [gdn.cpp:12]
  const float _exp_A_log = expf(A_log);                                 // [gdn.cpp:14]
  const float _minus_exp_A_log = -_exp_A_log;                           // [gdn.cpp:14]
  const float _scaled_minus_exp_A_log = _minus_exp_A_log * log2e;       // [gdn.cpp:14]
  const float _finite_minus_exp_A_log = _scaled_minus_exp_A_log < -largest_float ? -largest_float : _scaled_minus_exp_A_log;  // [gdn.cpp:14]

  // Row owners: what needs one number a row is done by a thread a row, for all tiles of the block.
  const int own_row = static_cast<int>(threadIdx.x % 16), own_tile = static_cast<int>(threadIdx.x / 16);
  {
    const long long number = begin + own_tile;
    const Tile tile = number >= used_end ? Tile{}
        : arguments.cu_seqlens != nullptr
            ? find_packed_tile(number, 16, arguments.sequences, arguments.first_tile, arguments.sequence_start)
            : find_tile(number, 16, arguments.tokens);
    const float a_raw = own_row < tile.rows ? to_float(*(arguments.a_raw.at(tile.batch, tile.token + own_row, head))) : 0.0f;  // [gdn.cpp:11]
    const float beta_raw = own_row < tile.rows ? to_float(*(arguments.beta_raw.at(tile.batch, tile.token + own_row, head))) : 0.0f;  // [gdn.cpp:11]
    const float _a_raw_plus_dt_bias = a_raw + dt_bias;                  // [gdn.cpp:14]
    const float g = _finite_minus_exp_A_log * ((_a_raw_plus_dt_bias < 0.0f ? 0.0f : _a_raw_plus_dt_bias) + log1pf(approx_exp2(-fabsf(_a_raw_plus_dt_bias) * log2e)));  // [gdn.cpp:14]
    warp_barrier();  // every thread is done with g_shared
    g_shared[threadIdx.x] = g;
    warp_barrier();  // g_shared is complete
    const float g_c = row_scan<16, false, false, true>(g_shared + 16 * own_tile, own_row, tile.rows);  // [gdn.cpp:15]
    const float g_T = row_total<16>(g_shared + 16 * own_tile, tile.rows);               // [gdn.cpp:15]
    const float _exp2_minus_abs_beta_raw = approx_exp2(-fabsf(beta_raw) * log2e);       // [gdn.cpp:20]
    const float _rcp_beta_raw = approx_rcp_normal(1.0f + _exp2_minus_abs_beta_raw);     // [gdn.cpp:20]
    const float beta = 0.0f <= beta_raw ? _rcp_beta_raw : _exp2_minus_abs_beta_raw * _rcp_beta_raw;  // [gdn.cpp:20]
    if (own_row < tile.rows) *(arguments.g_c.at(tile.batch, tile.token + own_row, head)) = to<float>(g_c);  // [gdn.cpp:18]
    if (own_row == 0 && tile.rows > 0) *(arguments.g_T.at(head, number, 0)) = to<float>(g_T);       // [gdn.cpp:19]
    if (own_row < tile.rows) *(arguments.beta.at(tile.batch, tile.token + own_row, head)) = to<bf16>(beta);  // [gdn.cpp:20]
  }
  for (long long number = begin; number < used_end; ++number, next_slot(slot, phase, 2), record = record == 2 ? 0 : record + 1) {
    if constexpr (aligned) wait_for(&arrivals[slot], phase);
    else block_barrier();  // the slot is complete
    const Slot& here = slots[record];
    const Tile tile = tile_of(here.tile);
    const int rows_here = tile.rows - first_row;  // rows of this thread's block that are there: i < rows_here
    (void)rows_here;

    const float* const operands = shared + 320 + slot * 2048;
    const bf16* const q_staged = reinterpret_cast<const bf16*>(operands);
    const bf16* const k_staged = reinterpret_cast<const bf16*>(operands + 1024);
    float q[8];                                                         // [gdn.cpp:10]
    load_row<true>((q_staged + row * 128), lane, true, q);
    const float _inverse_norm_q = row_inverse_norm(q, 1.0f, eps, lane);                 // [gdn.cpp:16]
    float k[8];                                                         // [gdn.cpp:10]
    load_row<true>((k_staged + row * 128), lane, true, k);
    const float _inverse_norm_k = row_inverse_norm(k, 1.0f, eps, lane);                 // [gdn.cpp:17]
    float q_n[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      q_n[i] = q[i] * _inverse_norm_q;                                  // [gdn.cpp:16]
    }
    if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.q_n, arguments.q_n.token, row), lane, q_n);  // [gdn.cpp:16]
    float k_n[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      k_n[i] = k[i] * _inverse_norm_k;                                  // [gdn.cpp:17]
    }
    if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.k_n, arguments.k_n.token, row), lane, k_n);  // [gdn.cpp:17]
    block_barrier();  // every thread is done with the operands
    gdn_fwd_stage<aligned>(arguments, shared, head, number + 2, begin, used_end, slot, record == 0 ? 2 : record - 1);
  }
  // After the last sequence: dead rows are set to 0.
  for (long long number = used_end < begin ? begin : used_end; number < end; ++number) {
    const Tile tile = find_surplus_tile(number, 16, arguments.tokens, arguments.sequences, arguments.first_tile, arguments.sequence_start);
    const float zeros[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int row = step_row; row < tile.rows; row += 16) {
      store_row<aligned>(arguments.q_n.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.k_n.at(tile.batch, tile.token + row, head), lane, zeros);
      if (lane == 0) *arguments.g_c.at(tile.batch, tile.token + row, head) = to<float>(0.0f);
      if (lane == 0) *arguments.beta.at(tile.batch, tile.token + row, head) = to<bf16>(0.0f);
    }
    if (step_row == 0 && lane == 0) *arguments.g_T.at(head, number, 0) = to<float>(0.0f);
  }
}

#if KD_ALIGNED_VARIANT
KD_KERNEL(256, 4) void gdn_fwd(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  gdn_fwd_tiles<true>(arguments, shared);
}
KD_ENTRY(gdn_fwd, Arguments);
#endif

#if KD_ANY_VARIANT
KD_KERNEL(256, 3) void gdn_fwd_any(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  gdn_fwd_tiles<false>(arguments, shared);
}
KD_ENTRY(gdn_fwd_any, Arguments);
#endif

