// SPDX-License-Identifier: Apache-2.0
// gdn backward, derived: GDN preamble: scalar softplus gate, normalised q and k, beta
//   spec d176dc5216358f88  sm_90  tile 16 rows x 128 columns in 1 step  threads=256,tiles_per_block=8,min_blocks=4,heads_fastest=1,stages=2
//   remake: kdagen emit gdn --pass bwd
//
//   _inverse_norm_q = rsqrt(sum_d(q*q) + eps)                                                            [spec:16]
//   _inverse_norm_k = rsqrt(sum_d(k*k) + eps)                                                            [spec:17]
//   dbeta_raw = dbeta*sigmoid'(beta_raw)    -> bf16                                                      [spec:20]
//   dg = suffix_sum_t(dg_c) + dg_T                                                                       [spec:14]
//   da_raw = -dg*sigmoid(a_raw + dt_bias)*exp(A_log)    -> bf16                                          [spec:14]
//   ddt_bias = sum_{b,n}(sum_t(da_raw))    -> param gradient, f32                                        [spec:14]
//   dA_log = -sum_{b,n}(sum_t(dg*softplus(a_raw + dt_bias)))*exp(A_log)    -> param gradient, f32        [spec:14]
//   _q_inverse_norm_q = q*_inverse_norm_q                                                                [spec:10]
//   dq = (dq_n - _q_inverse_norm_q*sum_d(dq_n*_q_inverse_norm_q))*_inverse_norm_q    -> bf16             [spec:10]
//   _k_inverse_norm_k = k*_inverse_norm_k                                                                [spec:10]
//   dk = (dk_n - _k_inverse_norm_k*sum_d(dk_n*_k_inverse_norm_k))*_inverse_norm_k    -> bf16             [spec:10]
#include <kdagen/device.cuh>
#include <kdagen/staging.cuh>

constexpr float eps = 1e-06f;  // eps
constexpr float log2e = 1.442695f;  // log2e

struct Arguments {
  TensorMap q_map;  // for the copy engine
  TensorMap k_map;  // for the copy engine
  TensorMap dq_n_map;  // for the copy engine
  TensorMap dk_n_map;  // for the copy engine
  Rows<const bf16> q;  // input [t, h, d]
  Rows<const bf16> k;  // input [t, h, d]
  Rows<const bf16> a_raw;  // input [t, h]
  Rows<const bf16> beta_raw;  // input [t, h]
  const float* A_log;  // param [h]
  const float* dt_bias;  // param [h]
  Rows<const float> dq_n;  // cotangent [t, h, d]
  Rows<const float> dk_n;  // cotangent [t, h, d]
  Rows<const float> dg_c;  // cotangent [t, h]
  Tiles<const float> dg_T;  // cotangent [h]
  Rows<const float> dbeta;  // cotangent [t, h]
  Rows<bf16> dq;  // gradient [t, h, d]
  Rows<bf16> dk;  // gradient [t, h, d]
  Rows<bf16> da_raw;  // gradient [t, h]
  Rows<bf16> dbeta_raw;  // gradient [t, h]
  float* dA_log;  // param_gradient [h]
  float* ddt_bias;  // param_gradient [h]
  long long* first_tile;  // workspace
  long long* sequence_start;  // workspace
  float* _sum_total_dg_sum_partial;  // workspace
  float* _sum_total_dg_sum_columns;  // workspace
  float* ddt_bias_sum_partial;  // workspace
  float* ddt_bias_sum_columns;  // workspace
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
  bf16* dq;
  bf16* dk;
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

KD_KERNEL(256, 0) void gdn_bwd_first_tile(const __grid_constant__ Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(Offsets{arguments.cu_seqlens, arguments.offset_bytes, arguments.tokens}, arguments.sequences, 16,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(gdn_bwd_first_tile, Arguments);

/// Asks for the operands of tile `number`, one of the block's tiles begin..end-1. aligned: thread 0 asks the copy engine,
/// and whoever waits for the slot's counter sees them. Else all threads copy; seen after a barrier.
template <bool aligned>
KD_FUNCTION void gdn_bwd_stage(const Arguments& arguments, float* shared, long long head, long long number, long long begin, long long end, int slot, int record) {
  if (number >= end || (aligned && threadIdx.x != 0)) return;
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 800);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 804);
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
      made.dq = before.dq + 16 * arguments.dq.token;
      made.dk = before.dk + 16 * arguments.dk.token;
    }
    else {
      made.dq = arguments.dq.at(where.batch, where.token, head);
      made.dk = arguments.dk.at(where.batch, where.token, head);
    }
    next = made;
  }
  if constexpr (!aligned) block_barrier();  // the record is complete
  const Tile tile = tile_of(next.tile);
  float* const operands = shared + 864 + slot * 6144;
  if constexpr (aligned) {
    expect_bytes(&arrivals[slot], 24576, &next);
    fetch_box(operands + 0, arguments.q_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 1024, arguments.k_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 2048, arguments.dq_n_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 4096, arguments.dk_n_map, tile.token, head, tile.batch, &arrivals[slot]);
  }
  else {
    copy_box(reinterpret_cast<bf16*>(operands + 0), arguments.q.at(tile.batch, tile.token, head), arguments.q.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<bf16*>(operands + 1024), arguments.k.at(tile.batch, tile.token, head), arguments.k.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<float*>(operands + 2048), arguments.dq_n.at(tile.batch, tile.token, head), arguments.dq_n.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<float*>(operands + 4096), arguments.dk_n.at(tile.batch, tile.token, head), arguments.dk_n.token, tile.rows, 16, 128, 256);
  }
}

template <bool aligned>
KD_FUNCTION void gdn_bwd_tiles(const Arguments& arguments, float* shared) {
  // Row map: 16 lanes a row, 16 rows at a time.
  const int lane = static_cast<int>(threadIdx.x % 16), step_row = static_cast<int>(threadIdx.x / 16);
  // Column map: one column, one block of 8 rows.
  const int column = static_cast<int>(threadIdx.x % 128), block = static_cast<int>(threadIdx.x / 128);
  const int row = step_row, first_row = 8 * block;
  (void)lane, (void)row, (void)column, (void)first_row;
  float* const dg_c_shared = shared + 0;
  float* const _dg_a_raw_plus_a_raw_shared = shared + 256;
  float* const _total_dg_totals = shared + 768;
  float* const da_raw_shared = shared + 512;
  float* const _total_da_raw_totals = shared + 784;
  const unsigned heads = static_cast<unsigned>(arguments.heads), head_number = blockIdx.x % heads, group_number = blockIdx.x / heads;
  const long long head = head_number, group = group_number;
  (void)shared, (void)head;
  const long long begin = group * 8, end = begin + 8 < arguments.tiles ? begin + 8 : arguments.tiles;
  // Tiles from `used` on lie after the last sequence.
  const long long used = arguments.cu_seqlens != nullptr ? arguments.first_tile[arguments.sequences] : arguments.tiles;
  const long long used_end = used < end ? used : end;
  // Operands travel 2 tiles ahead.
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 800);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 804);
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
  for (int ahead = 0; ahead < 2; ++ahead) gdn_bwd_stage<aligned>(arguments, shared, head, begin + ahead, begin, used_end, ahead, ahead);
  // One record more than slots: the last tile's is read to its end, while the next operands are asked for.
  int slot = 0, record = 0;
  unsigned phase = 0;
  const float dt_bias = to_float(*(arguments.dt_bias + head));          // [gdn.cpp:12]
  const float A_log = to_float(*(arguments.A_log + head));              // [gdn.cpp:12]
  const float _exp_A_log = expf(A_log);                                 // [gdn.cpp:14]
  const float _finite_exp_A_log = largest_float < _exp_A_log ? largest_float : _exp_A_log;          // [gdn.cpp:14]

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
    const float dbeta = own_row < tile.rows ? to_float(*(arguments.dbeta.at(tile.batch, tile.token + own_row, head))) : 0.0f;  // [gdn.cpp:20]
    const float dg_c = own_row < tile.rows ? to_float(*(arguments.dg_c.at(tile.batch, tile.token + own_row, head))) : 0.0f;  // [gdn.cpp:18]
    const float dg_T = tile.rows > 0 ? to_float(*(arguments.dg_T.at(head, number, 0))) : 0.0f;      // [gdn.cpp:19]
    const float _a_raw_plus_dt_bias = a_raw + dt_bias;                  // [gdn.cpp:14]
    const float _exp2_a_raw = approx_exp2(-fabsf(_a_raw_plus_dt_bias) * log2e);         // [gdn.cpp:14]
    const float _a_raw_plus_a_raw = (_a_raw_plus_dt_bias < 0.0f ? 0.0f : _a_raw_plus_dt_bias) + log1pf(_exp2_a_raw);  // [gdn.cpp:14]
    const float _exp2_minus_abs_beta_raw = approx_exp2(-fabsf(beta_raw) * log2e);       // [gdn.cpp:20]
    const float _rcp_beta_raw = approx_rcp_normal(1.0f + _exp2_minus_abs_beta_raw);     // [gdn.cpp:20]
    const float dbeta_raw = dbeta * (_exp2_minus_abs_beta_raw * _rcp_beta_raw * _rcp_beta_raw);     // [gdn.cpp:20]
    warp_barrier();  // every thread is done with dg_c_shared
    dg_c_shared[threadIdx.x] = dg_c;
    warp_barrier();  // dg_c_shared is complete
    const float _suffix_dg_c = row_scan<16, false, true, true>(dg_c_shared + 16 * own_tile, own_row, tile.rows);  // [gdn.cpp:15]
    const float dg = _suffix_dg_c + dg_T;                               // [gdn.cpp:14]
    const float _dg_a_raw_plus_a_raw = dg * _a_raw_plus_a_raw;          // [gdn.cpp:14]
    warp_barrier();  // every thread is done with _dg_a_raw_plus_a_raw_shared
    _dg_a_raw_plus_a_raw_shared[threadIdx.x] = _dg_a_raw_plus_a_raw;
    warp_barrier();  // _dg_a_raw_plus_a_raw_shared is complete
    const float _total_dg = row_total<16>(_dg_a_raw_plus_a_raw_shared + 16 * own_tile, tile.rows);  // [gdn.cpp:14]
    if (own_row == 0) _total_dg_totals[own_tile] = tile.rows > 0 ? _total_dg : 0.0f;    // [gdn.cpp:14]
    const float _rcp_exp2_a_raw = approx_rcp_normal(1.0f + _exp2_a_raw);                // [gdn.cpp:14]
    const float da_raw = -(dg * (0.0f <= _a_raw_plus_dt_bias ? _rcp_exp2_a_raw : _exp2_a_raw * _rcp_exp2_a_raw) * _finite_exp_A_log);  // [gdn.cpp:14]
    warp_barrier();  // every thread is done with da_raw_shared
    da_raw_shared[threadIdx.x] = da_raw;
    warp_barrier();  // da_raw_shared is complete
    const float _total_da_raw = row_total<16>(da_raw_shared + 16 * own_tile, tile.rows);            // [gdn.cpp:14]
    if (own_row == 0) _total_da_raw_totals[own_tile] = tile.rows > 0 ? _total_da_raw : 0.0f;        // [gdn.cpp:14]
    if (own_row < tile.rows) *(arguments.da_raw.at(tile.batch, tile.token + own_row, head)) = to<bf16>(da_raw);  // [gdn.cpp:11]
    if (own_row < tile.rows) *(arguments.dbeta_raw.at(tile.batch, tile.token + own_row, head)) = to<bf16>(dbeta_raw);  // [gdn.cpp:11]
    block_barrier();  // the totals of the tiles are complete
    if (threadIdx.x < 2 && begin + 8 * threadIdx.x < end) {
      const long long segment = begin / 8 + threadIdx.x;
      float _sum_total_dg_sum = 0.0f;
      for (int i = 0; i < 8; ++i) _sum_total_dg_sum += _total_dg_totals[8 * threadIdx.x + i];
      arguments._sum_total_dg_sum_partial[head * arguments.segments + segment] = _sum_total_dg_sum;
      float ddt_bias_sum = 0.0f;
      for (int i = 0; i < 8; ++i) ddt_bias_sum += _total_da_raw_totals[8 * threadIdx.x + i];
      arguments.ddt_bias_sum_partial[head * arguments.segments + segment] = ddt_bias_sum;
    }
    block_barrier();  // every thread is done with the totals
  }
  for (long long number = begin; number < used_end; ++number, next_slot(slot, phase, 2), record = record == 2 ? 0 : record + 1) {
    if constexpr (aligned) wait_for(&arrivals[slot], phase);
    else block_barrier();  // the slot is complete
    const Slot& here = slots[record];
    const Tile tile = tile_of(here.tile);
    const int rows_here = tile.rows - first_row;  // rows of this thread's block that are there: i < rows_here
    (void)rows_here;

    const float* const operands = shared + 864 + slot * 6144;
    const bf16* const q_staged = reinterpret_cast<const bf16*>(operands);
    const bf16* const k_staged = reinterpret_cast<const bf16*>(operands + 1024);
    const float* const dq_n_staged = operands + 2048;
    const float* const dk_n_staged = operands + 4096;
    float q[8];                                                         // [gdn.cpp:10]
    load_row<true>((q_staged + row * 128), lane, true, q);
    const float _inverse_norm_q = row_inverse_norm(q, 1.0f, eps, lane);                 // [gdn.cpp:16]
    float k[8];                                                         // [gdn.cpp:10]
    load_row<true>((k_staged + row * 128), lane, true, k);
    const float _inverse_norm_k = row_inverse_norm(k, 1.0f, eps, lane);                 // [gdn.cpp:17]
    float dq_n[8];                                                      // [gdn.cpp:16]
    load_row<true>((dq_n_staged + row * 128), lane, true, dq_n);
    float _q_inverse_norm_q[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      _q_inverse_norm_q[i] = q[i] * _inverse_norm_q;                    // [gdn.cpp:10]
    }
    const float _row_sum_dq_n = row_dot(dq_n, _q_inverse_norm_q, lane);                 // [gdn.cpp:10]
    float dq[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      dq[i] = fmaf(-_q_inverse_norm_q[i], _row_sum_dq_n, dq_n[i]) * _inverse_norm_q;    // [gdn.cpp:10]
    }
    if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.dq, arguments.dq.token, row), lane, dq);  // [gdn.cpp:10]
    float dk_n[8];                                                      // [gdn.cpp:17]
    load_row<true>((dk_n_staged + row * 128), lane, true, dk_n);
    float _k_inverse_norm_k[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      _k_inverse_norm_k[i] = k[i] * _inverse_norm_k;                    // [gdn.cpp:10]
    }
    const float _row_sum_dk_n = row_dot(dk_n, _k_inverse_norm_k, lane);                 // [gdn.cpp:10]
    float dk[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      dk[i] = fmaf(-_k_inverse_norm_k[i], _row_sum_dk_n, dk_n[i]) * _inverse_norm_k;    // [gdn.cpp:10]
    }
    if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.dk, arguments.dk.token, row), lane, dk);  // [gdn.cpp:10]
    block_barrier();  // every thread is done with the operands
    gdn_bwd_stage<aligned>(arguments, shared, head, number + 2, begin, used_end, slot, record == 0 ? 2 : record - 1);
  }
  // After the last sequence: dead rows are set to 0.
  for (long long number = used_end < begin ? begin : used_end; number < end; ++number) {
    const Tile tile = find_surplus_tile(number, 16, arguments.tokens, arguments.sequences, arguments.first_tile, arguments.sequence_start);
    const float zeros[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int row = step_row; row < tile.rows; row += 16) {
      store_row<aligned>(arguments.dq.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.dk.at(tile.batch, tile.token + row, head), lane, zeros);
      if (lane == 0) *arguments.da_raw.at(tile.batch, tile.token + row, head) = to<bf16>(0.0f);
      if (lane == 0) *arguments.dbeta_raw.at(tile.batch, tile.token + row, head) = to<bf16>(0.0f);
    }
  }
}

#if KD_ALIGNED_VARIANT
KD_KERNEL(256, 4) void gdn_bwd(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  gdn_bwd_tiles<true>(arguments, shared);
}
KD_ENTRY(gdn_bwd, Arguments);
#endif

#if KD_ANY_VARIANT
KD_KERNEL(256, 3) void gdn_bwd_any(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  gdn_bwd_tiles<false>(arguments, shared);
}
KD_ENTRY(gdn_bwd_any, Arguments);
#endif

// Parameter sums, second stage: the segments (8 consecutive tiles of a head) by the balanced tree over their numbers.
KD_KERNEL(256, 0) void gdn_bwd_segments(const Arguments arguments) {
  KD_SHARED(float, parts, 256);
  const long long head = blockIdx.x % arguments.heads;
  const int column = static_cast<int>(blockIdx.x / arguments.heads) * 32 + static_cast<int>(threadIdx.x % 32);
  const int which = static_cast<int>(blockIdx.y);
  const int width = 1;
  const float* const terms = which == 0 ? arguments._sum_total_dg_sum_partial : arguments.ddt_bias_sum_partial;
  float* const results = which == 0 ? arguments._sum_total_dg_sum_columns : arguments.ddt_bias_sum_columns;
  const float* const first_term = terms + head * arguments.segments * width + column;
  sum_segments(arguments.segments, column < width, parts, results + head * width + column, [&](long long segment) {
    return first_term[segment * width];
  });
}
KD_ENTRY(gdn_bwd_segments, Arguments);

// Parameter sums, last stage: features, heads, and the adjoints of values made of parameters alone. One row of lanes.
template <bool aligned>
KD_FUNCTION void gdn_bwd_finish_body(const Arguments& arguments) {
  const int lane = static_cast<int>(threadIdx.x % 16);
  (void)lane;
  const long long head = blockIdx.x;
  (void)head;
  const float _sum_total_dg = arguments._sum_total_dg_sum_columns[head];
  const float ddt_bias = arguments.ddt_bias_sum_columns[head];
  const float A_log = to_float(*(arguments.A_log + head));              // [gdn.cpp:12]
  const float dA_log = -(_sum_total_dg * (largest_float < expf(A_log) ? largest_float : expf(A_log)));  // [gdn.cpp:14]
  if (threadIdx.x == 0) *(arguments.dA_log + head) = to<float>(dA_log);                 // [gdn.cpp:12]
  if (threadIdx.x == 0) *(arguments.ddt_bias + head) = to<float>(ddt_bias);             // [gdn.cpp:12]
}

#if KD_ALIGNED_VARIANT
KD_KERNEL(32, 0) void gdn_bwd_finish(const Arguments arguments) { gdn_bwd_finish_body<true>(arguments); }
KD_ENTRY(gdn_bwd_finish, Arguments);
#endif
#if KD_ANY_VARIANT
KD_KERNEL(32, 0) void gdn_bwd_finish_any(const Arguments arguments) { gdn_bwd_finish_body<false>(arguments); }
KD_ENTRY(gdn_bwd_finish_any, Arguments);
#endif
