// SPDX-License-Identifier: Apache-2.0
// kda_fla backward, derived: KDA preamble of FLA: normalised q and k, cumulative gate, beta
//   gate=bounded
//   spec 5f1f5160315cb179  sm_90  tile 64 rows x 128 columns in 2 steps  threads=512,tiles_per_block=8,min_blocks=2,heads_fastest=1,stages=1
//   remake: kdagen emit kda_fla --pass bwd
//
//   x = g_raw + dt_bias                                                                                  [spec:20]
//   _inverse_norm_q = rsqrt(sum_d(q*q) + eps)                                                            [spec:23]
//   _inverse_norm_k = rsqrt(sum_d(k*k) + eps)                                                            [spec:24]
//   dbeta_raw = dbeta*sigmoid'(beta_raw)*beta_scale    -> bf16                                           [spec:26]
//   dg = suffix_sum_t(dg_c)                                                                              [spec:25]
//   _mul_dg = dg*sigmoid'(exp(A_log)*x)*lower_bound                                                      [spec:22]
//   dx = _mul_dg*exp(A_log)                                                                              [spec:22]
//   dA_log = sum_d(sum_{b,n}(sum_t(_mul_dg*x)))*exp(A_log)    -> param gradient, f32                     [spec:22]
//   ddt_bias = sum_{b,n}(sum_t(dx))    -> param gradient, f32                                            [spec:20]
//   _q_inverse_norm_q = q*_inverse_norm_q                                                                [spec:15]
//   dq = (dq_n - _q_inverse_norm_q*sum_d(dq_n*_q_inverse_norm_q))*_inverse_norm_q    -> bf16             [spec:15]
//   _k_inverse_norm_k = k*_inverse_norm_k                                                                [spec:15]
//   dk = (dk_n - _k_inverse_norm_k*sum_d(dk_n*_k_inverse_norm_k))*_inverse_norm_k    -> bf16             [spec:15]
//   dg_raw = dx    -> bf16                                                                               [spec:15]
#include <kdagen/device.cuh>
#include <kdagen/staging.cuh>

constexpr float beta_scale = 1.0f;  // beta_scale
constexpr float eps = 1e-06f;  // eps
constexpr float log2e = 1.442695f;  // log2e
constexpr float lower_bound = -5.0f;  // lower_bound

struct Arguments {
  TensorMap q_map;  // for the copy engine
  TensorMap k_map;  // for the copy engine
  TensorMap g_raw_map;  // for the copy engine
  TensorMap dq_n_map;  // for the copy engine
  TensorMap dk_n_map;  // for the copy engine
  TensorMap dg_c_map;  // for the copy engine
  Rows<const bf16> q;  // input [t, h, d]
  Rows<const bf16> k;  // input [t, h, d]
  Rows<const bf16> g_raw;  // input [t, h, d]
  Rows<const bf16> beta_raw;  // input [t, h]
  const float* A_log;  // param [h]
  const float* dt_bias;  // param [h, d]
  Rows<const float> dq_n;  // cotangent [t, h, d]
  Rows<const float> dk_n;  // cotangent [t, h, d]
  Rows<const float> dg_c;  // cotangent [t, h, d]
  Rows<const float> dbeta;  // cotangent [t, h]
  Rows<bf16> dq;  // gradient [t, h, d]
  Rows<bf16> dk;  // gradient [t, h, d]
  Rows<bf16> dg_raw;  // gradient [t, h, d]
  Rows<bf16> dbeta_raw;  // gradient [t, h]
  float* dA_log;  // param_gradient [h]
  float* ddt_bias;  // param_gradient [h, d]
  long long* first_tile;  // workspace
  long long* sequence_start;  // workspace
  float* _sum_total_mul_dg_x_sum_partial;  // workspace
  float* _sum_total_mul_dg_x_sum_columns;  // workspace
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
  bf16* dg_raw;
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

/// Sum of a row by the tree over the bits 0, 1, top (in a lane), 2, 3, ... (across 16 lanes) of the column number.
KD_FUNCTION float row_sum(const float (&x)[8], int lane) {
  const float lower = (x[0] + x[1]) + (x[2] + x[3]);
  const float upper = (x[4] + x[5]) + (x[6] + x[7]);
  float sum = lower + upper;
  sum += lane_xor(sum, 1);  // every lane holds the sum of its group of 2 lanes
  sum += lane_xor(sum, 2);  // every lane holds the sum of its group of 4 lanes
  sum += lane_xor(sum, 4);  // every lane holds the sum of its group of 8 lanes
  sum += lane_xor(sum, 8);  // every lane holds the sum of its group of 16 lanes
  return sum;
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

KD_KERNEL(256, 0) void kda_fla_bwd_first_tile(const __grid_constant__ Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(Offsets{arguments.cu_seqlens, arguments.offset_bytes, arguments.tokens}, arguments.sequences, 64,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(kda_fla_bwd_first_tile, Arguments);

/// Asks for the operands of tile `number`, one of the block's tiles begin..end-1. aligned: thread 0 asks the copy engine,
/// and whoever waits for the slot's counter sees them. Else all threads copy; seen after a barrier.
/// `unit`: which of the 2 portions, each the rows of a step or of all steps.
template <bool aligned>
KD_FUNCTION void kda_fla_bwd_stage(const Arguments& arguments, float* shared, long long head, long long number, int unit, long long begin, long long end, int slot, int record) {
  if (number >= end || (aligned && threadIdx.x != 0)) return;
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 3072);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 3074);
  Slot& next = slots[record];
  (void)arrivals, (void)head;
  if (threadIdx.x == 0) {
    const long long* const sequence_start = arguments.cu_seqlens != nullptr ? arguments.sequence_start : nullptr;
    const Slot before = slots[record == 0 ? 1 : record - 1];
    Slot made = before;
    if (unit == 0) {
      const StagedTile where = next_staged_tile(before.tile, 64, sequence_start);
      made.tile = where;
      if (number != begin && where.batch == before.tile.batch && where.sequence == before.tile.sequence) {
        // the next 64 rows of the same sequence
        made.dq = before.dq + 64 * arguments.dq.token;
        made.dk = before.dk + 64 * arguments.dk.token;
        made.dg_raw = before.dg_raw + 64 * arguments.dg_raw.token;
      }
      else {
        made.dq = arguments.dq.at(where.batch, where.token, head);
        made.dk = arguments.dk.at(where.batch, where.token, head);
        made.dg_raw = arguments.dg_raw.at(where.batch, where.token, head);
      }
    }
    next = made;
  }
  if constexpr (!aligned) block_barrier();  // the record is complete
  const Tile tile = tile_of(next.tile);
  float* const operands = shared + 3136 + slot * 18432;
  if constexpr (aligned) {
    expect_bytes(&arrivals[slot], 73728, &next);
    const int first_row = (1 - unit) * 32;
    fetch_box(operands + 0, arguments.q_map, tile.token + first_row, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 2048, arguments.k_map, tile.token + first_row, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 4096, arguments.g_raw_map, tile.token + first_row, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 6144, arguments.dq_n_map, tile.token + first_row, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 10240, arguments.dk_n_map, tile.token + first_row, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 14336, arguments.dg_c_map, tile.token + first_row, head, tile.batch, &arrivals[slot]);
  }
  else {
    const int first_row = (1 - unit) * 32;
    copy_box(reinterpret_cast<bf16*>(operands + 0), arguments.q.at(tile.batch, tile.token + first_row, head), arguments.q.token, tile.rows - first_row, 32, 128, 512);
    copy_box(reinterpret_cast<bf16*>(operands + 2048), arguments.k.at(tile.batch, tile.token + first_row, head), arguments.k.token, tile.rows - first_row, 32, 128, 512);
    copy_box(reinterpret_cast<bf16*>(operands + 4096), arguments.g_raw.at(tile.batch, tile.token + first_row, head), arguments.g_raw.token, tile.rows - first_row, 32, 128, 512);
    copy_box(reinterpret_cast<float*>(operands + 6144), arguments.dq_n.at(tile.batch, tile.token + first_row, head), arguments.dq_n.token, tile.rows - first_row, 32, 128, 512);
    copy_box(reinterpret_cast<float*>(operands + 10240), arguments.dk_n.at(tile.batch, tile.token + first_row, head), arguments.dk_n.token, tile.rows - first_row, 32, 128, 512);
    copy_box(reinterpret_cast<float*>(operands + 14336), arguments.dg_c.at(tile.batch, tile.token + first_row, head), arguments.dg_c.token, tile.rows - first_row, 32, 128, 512);
  }
}

template <bool aligned>
KD_FUNCTION void kda_fla_bwd_tiles(const Arguments& arguments, float* shared) {
  // Row map: 16 lanes a row, 32 rows at a time.
  const int lane = static_cast<int>(threadIdx.x % 16), step_row = static_cast<int>(threadIdx.x / 16);
  // Column map: one column, one block of 8 rows.
  const int column = static_cast<int>(threadIdx.x % 128), block = static_cast<int>(threadIdx.x / 128);
  (void)lane, (void)step_row, (void)column, (void)block;
  float* const dg_c_blocks = shared + 0;
  float* const _mul_dg_x_blocks = shared + 1024;
  float* const dx_blocks = shared + 2048;
  const unsigned heads = static_cast<unsigned>(arguments.heads), head_number = blockIdx.x % heads, group_number = blockIdx.x / heads;
  const long long head = head_number, group = group_number;
  (void)shared, (void)head;
  const long long begin = group * 8, end = begin + 8 < arguments.tiles ? begin + 8 : arguments.tiles;
  // Tiles from `used` on lie after the last sequence.
  const long long used = arguments.cu_seqlens != nullptr ? arguments.first_tile[arguments.sequences] : arguments.tiles;
  const long long used_end = used < end ? used : end;
  // Operands travel 1 portion ahead.
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 3072);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 3074);
  if (threadIdx.x == 0) {
    if constexpr (aligned) {
      for (int slot = 0; slot < 1; ++slot) initialise_arrival(&arrivals[slot]);
      publish_arrivals();
    }
    const long long* const first_tile = arguments.cu_seqlens != nullptr ? arguments.first_tile : nullptr;
    // the first tile is found as the one after this
    if (begin < used_end) slots[1] = Slot{staged_tile_before(begin, 64, arguments.tokens, arguments.sequences, first_tile, arguments.sequence_start)};
  }
  block_barrier();  // arrivals is complete
  for (int ahead = 0; ahead < 1; ++ahead) kda_fla_bwd_stage<aligned>(arguments, shared, head, begin + ahead / 2, ahead % 2, begin, used_end, ahead, ahead);
  // One record more than slots: the last portion's is read to its end, while the next operands are asked for.
  int slot = 0, record = 0;
  unsigned phase = 0;
  const float A_log = arguments.A_log != nullptr ? to_float(*(arguments.A_log + head)) : 0.0f;      // [kda_fla.cpp:18]
  const float _exp_A_log = expf(A_log);                                 // [kda_fla.cpp:22]
  const float _finite_exp_A_log = largest_float < _exp_A_log ? largest_float : _exp_A_log;          // [kda_fla.cpp:22]
  const float dt_bias = arguments.dt_bias != nullptr ? to_float((arguments.dt_bias + head * 128)[column]) : 0.0f;  // [kda_fla.cpp:18]

  // Row owners: what needs one number a row is done by a thread a row, for all tiles of the block.
  const int own_row = static_cast<int>(threadIdx.x % 64), own_tile = static_cast<int>(threadIdx.x / 64);
  {
    const long long number = begin + own_tile;
    const Tile tile = number >= used_end ? Tile{}
        : arguments.cu_seqlens != nullptr
            ? find_packed_tile(number, 64, arguments.sequences, arguments.first_tile, arguments.sequence_start)
            : find_tile(number, 64, arguments.tokens);
    const float beta_raw = own_row < tile.rows ? to_float(*(arguments.beta_raw.at(tile.batch, tile.token + own_row, head))) : 0.0f;  // [kda_fla.cpp:16]
    const float dbeta = own_row < tile.rows ? to_float(*(arguments.dbeta.at(tile.batch, tile.token + own_row, head))) : 0.0f;  // [kda_fla.cpp:26]
    const float _exp2_minus_abs_beta_raw = approx_exp2(-fabsf(beta_raw) * log2e);       // [kda_fla.cpp:26]
    const float _rcp_beta_raw = approx_rcp_normal(1.0f + _exp2_minus_abs_beta_raw);     // [kda_fla.cpp:26]
    const float dbeta_raw = dbeta * (_exp2_minus_abs_beta_raw * _rcp_beta_raw * _rcp_beta_raw) * beta_scale;  // [kda_fla.cpp:26]
    if (own_row < tile.rows) *(arguments.dbeta_raw.at(tile.batch, tile.token + own_row, head)) = to<bf16>(dbeta_raw);  // [kda_fla.cpp:16]
  }
  float _sum_total_mul_dg_x_sum = 0.0f;
  float ddt_bias_sum = 0.0f;
  for (long long number = begin; number < used_end; ++number) {
    if constexpr (aligned) wait_for(&arrivals[slot], phase);
    else block_barrier();  // the slot is complete
    const Slot here = slots[record];
    const Tile tile = tile_of(here.tile);

    float dg_carry = 0.0f;
    for (int step = 1; step >= 0; --step, next_slot(slot, phase, 1), record = record == 1 ? 0 : record + 1) {
      const int row = step * 32 + step_row, first_row = step * 32 + 8 * block;
      (void)row, (void)first_row;
      const int rows_here = tile.rows - first_row;  // rows of this thread's block that are there: i < rows_here
      (void)rows_here;
      if constexpr (aligned) wait_for(&arrivals[slot], phase);
      else block_barrier();  // the slot is complete
      const Slot& here = slots[record];
      const int unit = 1 - step;
      const float* const operands = shared + 3136 + slot * 18432;
      const bf16* const q_staged = reinterpret_cast<const bf16*>(operands);
      const bf16* const k_staged = reinterpret_cast<const bf16*>(operands + 2048);
      const bf16* const g_raw_staged = reinterpret_cast<const bf16*>(operands + 4096);
      const float* const dq_n_staged = operands + 6144;
      const float* const dk_n_staged = operands + 10240;
      const float* const dg_c_staged = operands + 14336;
      float q[8];                                                       // [kda_fla.cpp:15]
      load_row<true>((q_staged + step_row * 128), lane, true, q);
      const float _inverse_norm_q = row_inverse_norm(q, 1.0f, eps, lane);               // [kda_fla.cpp:23]
      float k[8];                                                       // [kda_fla.cpp:15]
      load_row<true>((k_staged + step_row * 128), lane, true, k);
      const float _inverse_norm_k = row_inverse_norm(k, 1.0f, eps, lane);               // [kda_fla.cpp:24]
      float dq_n[8];                                                    // [kda_fla.cpp:23]
      load_row<true>((dq_n_staged + step_row * 128), lane, true, dq_n);
      float _q_inverse_norm_q[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        _q_inverse_norm_q[i] = q[i] * _inverse_norm_q;                  // [kda_fla.cpp:15]
      }
      const float _row_sum_dq_n = row_dot(dq_n, _q_inverse_norm_q, lane);               // [kda_fla.cpp:15]
      float dq[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        dq[i] = fmaf(-_q_inverse_norm_q[i], _row_sum_dq_n, dq_n[i]) * _inverse_norm_q;  // [kda_fla.cpp:15]
      }
      if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.dq, arguments.dq.token, row), lane, dq);  // [kda_fla.cpp:15]
      float dk_n[8];                                                    // [kda_fla.cpp:24]
      load_row<true>((dk_n_staged + step_row * 128), lane, true, dk_n);
      float _k_inverse_norm_k[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        _k_inverse_norm_k[i] = k[i] * _inverse_norm_k;                  // [kda_fla.cpp:15]
      }
      const float _row_sum_dk_n = row_dot(dk_n, _k_inverse_norm_k, lane);               // [kda_fla.cpp:15]
      float dk[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        dk[i] = fmaf(-_k_inverse_norm_k[i], _row_sum_dk_n, dk_n[i]) * _inverse_norm_k;  // [kda_fla.cpp:15]
      }
      if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.dk, arguments.dk.token, row), lane, dk);  // [kda_fla.cpp:15]
      float dg_c[8];                                                    // [kda_fla.cpp:25]
      #pragma unroll
      for (int i = 0; i < 8; ++i) dg_c[i] = to_float((dg_c_staged + (8 * block + i) * 128)[column]);
      // suffix sum of dg_c: inside blocks of 8 rows, absent rows skipped               // [kda_fla.cpp:25]
      float dg[8];
      #pragma unroll
      for (int i = 7; i >= 0; --i) {
        const float term = i < rows_here ? dg_c[i] : 0.0f;
        dg[i] = i == 7 ? term : dg[i + 1] + term;
      }
      dg_c_blocks[(step * 4 + block) * 128 + column] = dg[0];
      float g_raw[8];                                                   // [kda_fla.cpp:15]
      #pragma unroll
      for (int i = 0; i < 8; ++i) g_raw[i] = to_float((g_raw_staged + (8 * block + i) * 128)[column]);
      block_barrier();  // dg_c_blocks is complete
      kda_fla_bwd_stage<aligned>(arguments, shared, head, number + (unit + 1) / 2, (unit + 1) % 2, begin, used_end, slot, record == 0 ? 1 : record - 1);
      // and the blocks after
      float dg_before = 0.0f;
      #pragma unroll
      for (int b = 3; b >= 0; --b) {
        if (b == block) dg_before = dg_carry;
        dg_carry += dg_c_blocks[(step * 4 + b) * 128 + column];
      }
      #pragma unroll
      for (int i = 0; i < 8; ++i) dg[i] = dg_before + dg[i];
      float _mul_dg[8];
      float _mul_dg_x[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float x = g_raw[i] + dt_bias;                             // [kda_fla.cpp:20]
        const float _exp2_A_log = approx_exp2(-fabsf(_finite_exp_A_log * x) * log2e);   // [kda_fla.cpp:22]
        const float _rcp_exp2_A_log = approx_rcp_normal(1.0f + _exp2_A_log);            // [kda_fla.cpp:22]
        _mul_dg[i] = dg[i] * (_exp2_A_log * _rcp_exp2_A_log * _rcp_exp2_A_log) * lower_bound;       // [kda_fla.cpp:22]
        _mul_dg_x[i] = _mul_dg[i] * x;                                  // [kda_fla.cpp:22]
      }
      // sum over the rows of _mul_dg_x: blocks of 8 rows first         // [kda_fla.cpp:22]
      float _total_mul_dg_x_block = 0.0f;
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i < rows_here) _total_mul_dg_x_block = i == 0 ? _mul_dg_x[i] : _total_mul_dg_x_block + _mul_dg_x[i];
      }
      _mul_dg_x_blocks[(step * 4 + block) * 128 + column] = _total_mul_dg_x_block;
      float dx[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        dx[i] = _mul_dg[i] * _finite_exp_A_log;                         // [kda_fla.cpp:22]
      }
      // sum over the rows of dx: blocks of 8 rows first                // [kda_fla.cpp:20]
      float _total_dx_block = 0.0f;
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i < rows_here) _total_dx_block = i == 0 ? dx[i] : _total_dx_block + dx[i];
      }
      dx_blocks[(step * 4 + block) * 128 + column] = _total_dx_block;
      {
        bf16* const place = row_of<aligned>(here.dg_raw, arguments.dg_raw.token, first_row) + column;
        #pragma unroll
        for (int i = 0; i < 8; ++i) if (i < rows_here) *row_of<aligned>(place, arguments.dg_raw.token, i) = to<bf16>(dx[i]);  // [kda_fla.cpp:15]
      }
    }

    block_barrier();  // _mul_dg_x_blocks is complete
    float _total_mul_dg_x = _mul_dg_x_blocks[column];                   // [kda_fla.cpp:22]
    #pragma unroll
    for (int b = 1; b < 8; ++b) _total_mul_dg_x += _mul_dg_x_blocks[b * 128 + column];
    _sum_total_mul_dg_x_sum += _total_mul_dg_x;                         // [kda_fla.cpp:22]
    float _total_dx = dx_blocks[column];                                // [kda_fla.cpp:20]
    #pragma unroll
    for (int b = 1; b < 8; ++b) _total_dx += dx_blocks[b * 128 + column];
    ddt_bias_sum += _total_dx;                                          // [kda_fla.cpp:20]
  }
  if (block == 0) arguments._sum_total_mul_dg_x_sum_partial[(head * arguments.segments + group) * 128 + column] = _sum_total_mul_dg_x_sum;
  if (block == 0) arguments.ddt_bias_sum_partial[(head * arguments.segments + group) * 128 + column] = ddt_bias_sum;
  // After the last sequence: dead rows are set to 0.
  for (long long number = used_end < begin ? begin : used_end; number < end; ++number) {
    const Tile tile = find_surplus_tile(number, 64, arguments.tokens, arguments.sequences, arguments.first_tile, arguments.sequence_start);
    const float zeros[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int row = step_row; row < tile.rows; row += 32) {
      store_row<aligned>(arguments.dq.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.dk.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.dg_raw.at(tile.batch, tile.token + row, head), lane, zeros);
      if (lane == 0) *arguments.dbeta_raw.at(tile.batch, tile.token + row, head) = to<bf16>(0.0f);
    }
  }
}

#if KD_ALIGNED_VARIANT
KD_KERNEL(512, 2) void kda_fla_bwd(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  kda_fla_bwd_tiles<true>(arguments, shared);
}
KD_ENTRY(kda_fla_bwd, Arguments);
#endif

#if KD_ANY_VARIANT
KD_KERNEL(512, 2) void kda_fla_bwd_any(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  kda_fla_bwd_tiles<false>(arguments, shared);
}
KD_ENTRY(kda_fla_bwd_any, Arguments);
#endif

// Parameter sums, second stage: the segments (8 consecutive tiles of a head) by the balanced tree over their numbers.
KD_KERNEL(256, 0) void kda_fla_bwd_segments(const Arguments arguments) {
  KD_SHARED(float, parts, 256);
  const long long head = blockIdx.x % arguments.heads;
  const int column = static_cast<int>(blockIdx.x / arguments.heads) * 32 + static_cast<int>(threadIdx.x % 32);
  const int which = static_cast<int>(blockIdx.y);
  const int width = 128;
  const float* const terms = which == 0 ? arguments._sum_total_mul_dg_x_sum_partial : arguments.ddt_bias_sum_partial;
  float* const results = which == 0 ? arguments._sum_total_mul_dg_x_sum_columns : arguments.ddt_bias_sum_columns;
  const float* const first_term = terms + head * arguments.segments * width + column;
  sum_segments(arguments.segments, column < width, parts, results + head * width + column, [&](long long segment) {
    return first_term[segment * width];
  });
}
KD_ENTRY(kda_fla_bwd_segments, Arguments);

// Parameter sums, last stage: features, heads, and the adjoints of values made of parameters alone. One row of lanes.
template <bool aligned>
KD_FUNCTION void kda_fla_bwd_finish_body(const Arguments& arguments) {
  const int lane = static_cast<int>(threadIdx.x % 16);
  (void)lane;
  const long long head = blockIdx.x;
  (void)head;
  float _sum_total_mul_dg_x[8];
  load4<true>(arguments._sum_total_mul_dg_x_sum_columns + head * 128 + 4 * lane, &_sum_total_mul_dg_x[0]);
  load4<true>(arguments._sum_total_mul_dg_x_sum_columns + head * 128 + 64 + 4 * lane, &_sum_total_mul_dg_x[4]);
  float ddt_bias[8];
  load4<true>(arguments.ddt_bias_sum_columns + head * 128 + 4 * lane, &ddt_bias[0]);
  load4<true>(arguments.ddt_bias_sum_columns + head * 128 + 64 + 4 * lane, &ddt_bias[4]);
  const float _row_sum_dg = row_sum(_sum_total_mul_dg_x, lane);         // [kda_fla.cpp:22]
  const float A_log = arguments.A_log != nullptr ? to_float(*(arguments.A_log + head)) : 0.0f;      // [kda_fla.cpp:18]
  const float dA_log = _row_sum_dg * (largest_float < expf(A_log) ? largest_float : expf(A_log));   // [kda_fla.cpp:22]
  if (threadIdx.x == 0) *(arguments.dA_log + head) = to<float>(dA_log);                 // [kda_fla.cpp:18]
  if (threadIdx.x < 16) store_row<aligned>(arguments.ddt_bias + head * 128, lane, ddt_bias);        // [kda_fla.cpp:18]
}

#if KD_ALIGNED_VARIANT
KD_KERNEL(32, 0) void kda_fla_bwd_finish(const Arguments arguments) { kda_fla_bwd_finish_body<true>(arguments); }
KD_ENTRY(kda_fla_bwd_finish, Arguments);
#endif
#if KD_ANY_VARIANT
KD_KERNEL(32, 0) void kda_fla_bwd_finish_any(const Arguments arguments) { kda_fla_bwd_finish_body<false>(arguments); }
KD_ENTRY(kda_fla_bwd_finish_any, Arguments);
#endif
