// SPDX-License-Identifier: Apache-2.0
// kda_k1 backward, derived: KDA preamble: normalised q and k, bounded gate, decay products of a chunk
//   anchor=none gt=k2 handover=raw
//   spec 8a6b6922a1643c31  sm_90  tile 16 rows x 128 columns in 1 step  threads=256,tiles_per_block=8,min_blocks=2,heads_fastest=1,stages=2
//   remake: kdagen emit kda_k1 --pass bwd
//
//   q_inv = rsqrt(sum_d(q*q) + eps)                                                                      [spec:25]
//   q_n = q*q_inv                                                                                        [spec:25]
//   k_inv = rsqrt(sum_d(k*k) + eps)                                                                      [spec:26]
//   k_n = k*k_inv                                                                                        [spec:26]
//   z = exp(A_log)*(g_raw + dt_bias)                                                                     [spec:27]
//   g = sigmoid(z)*(log2e*lower_bound)                                                                   [spec:28]
//   g_c = cumsum_t(g)                                                                                    [spec:29]
//   g_T = sum_t(g)                                                                                       [spec:29]
//   q_d = q_n*2^g_c*scale                                                                                [spec:33]
//   k_d = k_n*2^g_c                                                                                      [spec:34]
//   k_i = k_n*2^(-g_c)                                                                                   [spec:35]
//   k_r = k_n*(2^g_T*2^(-g_c))                                                                           [spec:36]
//   dbeta_raw = dbeta*sigmoid'(beta_raw)    -> bf16                                                      [spec:50]
//   dq_n = dq_d*2^g_c*scale                                                                              [spec:33]
//   dg_c = dq_d*round_bf16(q_d) + dk_d*round_bf16(k_d) - dk_i*round_bf16(k_i) - dk_r*round_bf16(k_r)     [spec:29]
//   dg = suffix_sum_t(dg_c) + dg_T                                                                       [spec:28]
//   dz = dg*sigmoid'(z)*lower_bound                                                                      [spec:28]
//   dg_raw = dz*exp(A_log)    -> bf16                                                                    [spec:27]
//   ddt_bias = sum_{b,n}(sum_t(dg_raw))    -> param gradient, f32                                        [spec:27]
//   dA_log = sum_d(sum_{b,n}(sum_t(dz*(g_raw + dt_bias))))*exp(A_log)    -> param gradient, f32          [spec:27]
//   dk_n = dk_d*2^g_c + dk_i*2^(-g_c) + dk_r*(2^g_T*2^(-g_c))                                            [spec:26]
//   dq = (dq_n - q_n*sum_d(dq_n*q_n))*q_inv    -> bf16                                                   [spec:21]
//   dk = (dk_n - k_n*sum_d(dk_n*k_n))*k_inv    -> bf16                                                   [spec:21]
//   dv = dv_out    -> bf16                                                                               [spec:22]
#include <kdagen/device.cuh>
#include <kdagen/staging.cuh>

constexpr float eps = 1e-06f;  // eps
constexpr float log2e = 1.442695f;  // log2e
constexpr float log2e_lower_bound = -7.213475f;  // log2e*lower_bound
constexpr float lower_bound = -5.0f;  // lower_bound
constexpr float scale = 0.088388346f;  // scale

struct Arguments {
  TensorMap q_map;  // for the copy engine
  TensorMap k_map;  // for the copy engine
  TensorMap g_raw_map;  // for the copy engine
  TensorMap dq_d_map;  // for the copy engine
  TensorMap dk_d_map;  // for the copy engine
  TensorMap dk_i_map;  // for the copy engine
  TensorMap dk_r_map;  // for the copy engine
  TensorMap dg_T_map;  // for the copy engine
  Rows<const bf16> q;  // input [t, h, d]
  Rows<const bf16> k;  // input [t, h, d]
  Rows<const bf16> g_raw;  // input [t, h, d]
  Rows<const bf16> beta_raw;  // input [t, h]
  const float* A_log;  // param [h]
  const float* dt_bias;  // param [h, d]
  Rows<const float> dq_d;  // cotangent [t, h, d]
  Rows<const float> dk_d;  // cotangent [t, h, d]
  Rows<const float> dk_i;  // cotangent [t, h, d]
  Rows<const float> dk_r;  // cotangent [t, h, d]
  Tiles<const float> dg_T;  // cotangent [h, d]
  Rows<const float> dv_out;  // cotangent [t, h, d]
  Rows<const float> dbeta;  // cotangent [t, h]
  Rows<bf16> dq;  // gradient [t, h, d]
  Rows<bf16> dk;  // gradient [t, h, d]
  Rows<bf16> dg_raw;  // gradient [t, h, d]
  Rows<bf16> dv;  // gradient [t, h, d]
  Rows<bf16> dbeta_raw;  // gradient [t, h]
  float* dA_log;  // param_gradient [h]
  float* ddt_bias;  // param_gradient [h, d]
  long long* first_tile;  // workspace
  long long* sequence_start;  // workspace
  float* _sum_total_dz_sum_partial;  // workspace
  float* _sum_total_dz_sum_columns;  // workspace
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
  const float* dv_out;
  bf16* dq;
  bf16* dk;
  bf16* dg_raw;
  bf16* dv;
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

KD_KERNEL(256, 0) void kda_k1_bwd_first_tile(const __grid_constant__ Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(Offsets{arguments.cu_seqlens, arguments.offset_bytes, arguments.tokens}, arguments.sequences, 16,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(kda_k1_bwd_first_tile, Arguments);

/// Asks for the operands of tile `number`, one of the block's tiles begin..end-1. aligned: thread 0 asks the copy engine,
/// and whoever waits for the slot's counter sees them. Else all threads copy; seen after a barrier.
template <bool aligned>
KD_FUNCTION void kda_k1_bwd_stage(const Arguments& arguments, float* shared, long long head, long long number, long long begin, long long end, int slot, int record) {
  if (number >= end || (aligned && threadIdx.x != 0)) return;
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 2432);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 2436);
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
      made.dv_out = before.dv_out + 16 * arguments.dv_out.token;
      made.dq = before.dq + 16 * arguments.dq.token;
      made.dk = before.dk + 16 * arguments.dk.token;
      made.dg_raw = before.dg_raw + 16 * arguments.dg_raw.token;
      made.dv = before.dv + 16 * arguments.dv.token;
    }
    else {
      made.dv_out = arguments.dv_out.at(where.batch, where.token, head);
      made.dq = arguments.dq.at(where.batch, where.token, head);
      made.dk = arguments.dk.at(where.batch, where.token, head);
      made.dg_raw = arguments.dg_raw.at(where.batch, where.token, head);
      made.dv = arguments.dv.at(where.batch, where.token, head);
    }
    next = made;
  }
  if constexpr (!aligned) block_barrier();  // the record is complete
  const Tile tile = tile_of(next.tile);
  float* const operands = shared + 2496 + slot * 11392;
  if constexpr (aligned) {
    expect_bytes(&arrivals[slot], 45568, &next);
    fetch_box(operands + 0, arguments.q_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 1024, arguments.k_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 2048, arguments.g_raw_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 3072, arguments.dq_d_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 5120, arguments.dk_d_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 7168, arguments.dk_i_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 9216, arguments.dk_r_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 11264, arguments.dg_T_map, 0, number, head, &arrivals[slot]);
  }
  else {
    copy_box(reinterpret_cast<bf16*>(operands + 0), arguments.q.at(tile.batch, tile.token, head), arguments.q.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<bf16*>(operands + 1024), arguments.k.at(tile.batch, tile.token, head), arguments.k.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<bf16*>(operands + 2048), arguments.g_raw.at(tile.batch, tile.token, head), arguments.g_raw.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<float*>(operands + 3072), arguments.dq_d.at(tile.batch, tile.token, head), arguments.dq_d.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<float*>(operands + 5120), arguments.dk_d.at(tile.batch, tile.token, head), arguments.dk_d.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<float*>(operands + 7168), arguments.dk_i.at(tile.batch, tile.token, head), arguments.dk_i.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<float*>(operands + 9216), arguments.dk_r.at(tile.batch, tile.token, head), arguments.dk_r.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<float*>(operands + 11264), arguments.dg_T.at(head, number, 0), 0, 1, 1, 128, 256);
  }
}

template <bool aligned>
KD_FUNCTION void kda_k1_bwd_tiles(const Arguments& arguments, float* shared) {
  // Row map: 16 lanes a row, 16 rows at a time.
  const int lane = static_cast<int>(threadIdx.x % 16), step_row = static_cast<int>(threadIdx.x / 16);
  // Column map: one column, one block of 8 rows.
  const int column = static_cast<int>(threadIdx.x % 128), block = static_cast<int>(threadIdx.x / 128);
  const int row = step_row, first_row = 8 * block;
  (void)lane, (void)row, (void)column, (void)first_row;
  float* const g_blocks = shared + 2048;
  float* const dg_c_blocks = shared + 2048;  // never needed at the same time as g_blocks
  float* const _dz_g_raw_plus_dt_bias_blocks = shared + 0;
  float* const dg_raw_blocks = shared + 256;
  float* const dg_c_shared = shared + 0;  // never needed at the same time as _dz_g_raw_plus_dt_bias_blocks, dg_raw_blocks
  float* const _exp2_g_T_shared = shared + 2304;
  float* const g_c_shared = shared + 0;  // never needed at the same time as _dz_g_raw_plus_dt_bias_blocks, dg_raw_blocks, dg_c_shared
  const unsigned heads = static_cast<unsigned>(arguments.heads), head_number = blockIdx.x % heads, group_number = blockIdx.x / heads;
  const long long head = head_number, group = group_number;
  (void)shared, (void)head;
  const long long begin = group * 8, end = begin + 8 < arguments.tiles ? begin + 8 : arguments.tiles;
  // Tiles from `used` on lie after the last sequence.
  const long long used = arguments.cu_seqlens != nullptr ? arguments.first_tile[arguments.sequences] : arguments.tiles;
  const long long used_end = used < end ? used : end;
  // Operands travel 2 tiles ahead.
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 2432);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 2436);
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
  for (int ahead = 0; ahead < 2; ++ahead) kda_k1_bwd_stage<aligned>(arguments, shared, head, begin + ahead, begin, used_end, ahead, ahead);
  // One record more than slots: the last tile's is read to its end, while the next operands are asked for.
  int slot = 0, record = 0;
  unsigned phase = 0;
  const float A_log = to_float(*(arguments.A_log + head));              // [kda_k1.cpp:23]
  const float _exp_A_log = expf(A_log);                                 // [kda_k1.cpp:27]
  const float _finite_exp_A_log = largest_float < _exp_A_log ? largest_float : _exp_A_log;          // [kda_k1.cpp:27]
  const float dt_bias = to_float((arguments.dt_bias + head * 128)[column]);             // [kda_k1.cpp:23]

  // Row owners: what needs one number a row is done by a thread a row, for all tiles of the block.
  const int own_row = static_cast<int>(threadIdx.x % 16), own_tile = static_cast<int>(threadIdx.x / 16);
  {
    const long long number = begin + own_tile;
    const Tile tile = number >= used_end ? Tile{}
        : arguments.cu_seqlens != nullptr
            ? find_packed_tile(number, 16, arguments.sequences, arguments.first_tile, arguments.sequence_start)
            : find_tile(number, 16, arguments.tokens);
    const float beta_raw = own_row < tile.rows ? to_float(*(arguments.beta_raw.at(tile.batch, tile.token + own_row, head))) : 0.0f;  // [kda_k1.cpp:22]
    const float dbeta = own_row < tile.rows ? to_float(*(arguments.dbeta.at(tile.batch, tile.token + own_row, head))) : 0.0f;  // [kda_k1.cpp:50]
    const float _exp2_minus_abs_beta_raw = approx_exp2(-fabsf(beta_raw) * log2e);       // [kda_k1.cpp:50]
    const float _rcp_beta_raw = approx_rcp_normal(1.0f + _exp2_minus_abs_beta_raw);     // [kda_k1.cpp:50]
    const float dbeta_raw = dbeta * (_exp2_minus_abs_beta_raw * _rcp_beta_raw * _rcp_beta_raw);     // [kda_k1.cpp:50]
    if (own_row < tile.rows) *(arguments.dbeta_raw.at(tile.batch, tile.token + own_row, head)) = to<bf16>(dbeta_raw);  // [kda_k1.cpp:22]
  }
  float _sum_total_dz_sum = 0.0f;
  float ddt_bias_sum = 0.0f;
  for (long long number = begin; number < used_end; ++number, next_slot(slot, phase, 2), record = record == 2 ? 0 : record + 1) {
    if constexpr (aligned) wait_for(&arrivals[slot], phase);
    else block_barrier();  // the slot is complete
    const Slot& here = slots[record];
    const Tile tile = tile_of(here.tile);
    const int rows_here = tile.rows - first_row;  // rows of this thread's block that are there: i < rows_here
    (void)rows_here;

    const float* const operands = shared + 2496 + slot * 11392;
    const bf16* const q_staged = reinterpret_cast<const bf16*>(operands);
    const bf16* const k_staged = reinterpret_cast<const bf16*>(operands + 1024);
    const bf16* const g_raw_staged = reinterpret_cast<const bf16*>(operands + 2048);
    const float* const dq_d_staged = operands + 3072;
    const float* const dk_d_staged = operands + 5120;
    const float* const dk_i_staged = operands + 7168;
    const float* const dk_r_staged = operands + 9216;
    const float* const dg_T_staged = operands + 11264;
    float dv_out[8];                                                    // [kda_k1.cpp:49]
    load_row<aligned>(row_of<aligned>(here.dv_out, arguments.dv_out.token, row), lane, row < tile.rows, dv_out);
    const float dg_T = to_float((dg_T_staged)[column]);                 // [kda_k1.cpp:47]
    float q[8];                                                         // [kda_k1.cpp:21]
    load_row<true>((q_staged + row * 128), lane, true, q);
    const float q_inv = row_inverse_norm(q, 1.0f, eps, lane);           // [kda_k1.cpp:25]
    float k[8];                                                         // [kda_k1.cpp:21]
    load_row<true>((k_staged + row * 128), lane, true, k);
    const float k_inv = row_inverse_norm(k, 1.0f, eps, lane);           // [kda_k1.cpp:26]
    float g_raw[8];                                                     // [kda_k1.cpp:21]
    #pragma unroll
    for (int i = 0; i < 8; ++i) g_raw[i] = to_float((g_raw_staged + (first_row + i) * 128)[column]);
    float _g_raw_plus_dt_bias[8];
    float _z_times_z_2[8];
    float g[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      _g_raw_plus_dt_bias[i] = g_raw[i] + dt_bias;                      // [kda_k1.cpp:27]
      const float z = _finite_exp_A_log * _g_raw_plus_dt_bias[i];       // [kda_k1.cpp:27]
      const float _exp2_minus_abs_z = approx_exp2(-fabsf(z) * log2e);   // [kda_k1.cpp:28]
      const float _rcp_exp2_minus_abs_z = approx_rcp_normal(1.0f + _exp2_minus_abs_z);  // [kda_k1.cpp:28]
      const float _z_times_z = _exp2_minus_abs_z * _rcp_exp2_minus_abs_z;               // [kda_k1.cpp:28]
      _z_times_z_2[i] = _z_times_z * _rcp_exp2_minus_abs_z;             // [kda_k1.cpp:28]
      g[i] = (0.0f <= z ? _rcp_exp2_minus_abs_z : _z_times_z) * log2e_lower_bound;      // [kda_k1.cpp:28]
    }
    // cumulative sum of g: inside blocks of 8 rows, absent rows skipped                // [kda_k1.cpp:29]
    float g_c_column[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float term = i < rows_here ? g[i] : 0.0f;
      g_c_column[i] = i == 0 ? term : g_c_column[i - 1] + term;
    }
    g_blocks[block * 128 + column] = g_c_column[7];
    if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.dv, arguments.dv.token, row), lane, dv_out);  // [kda_k1.cpp:22]
    block_barrier();  // g_blocks is complete
    // and the blocks before
    float g_c_column_before = 0.0f;
    float g_c_column_carry = 0.0f;
    #pragma unroll
    for (int b = 0; b < 2; ++b) {
      if (b == block) g_c_column_before = g_c_column_carry;
      g_c_column_carry += g_blocks[b * 128 + column];
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) g_c_column[i] = g_c_column_before + g_c_column[i];
    float g_T = g_blocks[column];                                       // [kda_k1.cpp:29]
    #pragma unroll
    for (int b = 1; b < 2; ++b) g_T += g_blocks[b * 128 + column];
    const float _exp2_g_T_column = approx_exp2_normal(g_T);             // [kda_k1.cpp:36]
    if (block == 0) _exp2_g_T_shared[column] = _exp2_g_T_column;
    #pragma unroll
    for (int i = 0; i < 8; ++i) g_c_shared[(first_row + i) * 128 + column] = g_c_column[i];
    float dq_d[8];                                                      // [kda_k1.cpp:33]
    load_row<true>((dq_d_staged + row * 128), lane, true, dq_d);
    block_barrier();  // g_c_shared is complete
    float g_c[8];
    load4<true>(&g_c_shared[row * 128 + 4 * lane], &g_c[0]);
    load4<true>(&g_c_shared[row * 128 + 64 + 4 * lane], &g_c[4]);
    float _exp2_g_c[8];
    float dq_n[8];
    float q_n[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      _exp2_g_c[i] = approx_exp2_normal(g_c[i]);                        // [kda_k1.cpp:33]
      dq_n[i] = dq_d[i] * _exp2_g_c[i] * scale;                         // [kda_k1.cpp:33]
      q_n[i] = q[i] * q_inv;                                            // [kda_k1.cpp:25]
    }
    const float _row_sum_dq_n_q_n = row_dot(dq_n, q_n, lane);           // [kda_k1.cpp:21]
    float dq[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      dq[i] = fmaf(-q_n[i], _row_sum_dq_n_q_n, dq_n[i]) * q_inv;        // [kda_k1.cpp:21]
    }
    if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.dq, arguments.dq.token, row), lane, dq);  // [kda_k1.cpp:21]
    float dk_r[8];                                                      // [kda_k1.cpp:36]
    load_row<true>((dk_r_staged + row * 128), lane, true, dk_r);
    float _exp2_g_T[8];
    load4<true>(&_exp2_g_T_shared[4 * lane], &_exp2_g_T[0]);
    load4<true>(&_exp2_g_T_shared[64 + 4 * lane], &_exp2_g_T[4]);
    float _exp2_minus_g_c[8];
    float _exp2_g_T_exp2_minus_g_c[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      _exp2_minus_g_c[i] = approx_exp2_normal(-g_c[i]);                 // [kda_k1.cpp:35]
      _exp2_g_T_exp2_minus_g_c[i] = _exp2_g_T[i] * _exp2_minus_g_c[i];  // [kda_k1.cpp:36]
    }
    float dk_i[8];                                                      // [kda_k1.cpp:35]
    load_row<true>((dk_i_staged + row * 128), lane, true, dk_i);
    float dk_d[8];                                                      // [kda_k1.cpp:34]
    load_row<true>((dk_d_staged + row * 128), lane, true, dk_d);
    float dk_n[8];
    float k_n[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      dk_n[i] = fmaf(dk_r[i], _exp2_g_T_exp2_minus_g_c[i], fmaf(dk_i[i], _exp2_minus_g_c[i], dk_d[i] * _exp2_g_c[i]));  // [kda_k1.cpp:26]
      k_n[i] = k[i] * k_inv;                                            // [kda_k1.cpp:26]
    }
    const float _row_sum_dk_n_k_n = row_dot(dk_n, k_n, lane);           // [kda_k1.cpp:21]
    float dk[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      dk[i] = fmaf(-k_n[i], _row_sum_dk_n_k_n, dk_n[i]) * k_inv;        // [kda_k1.cpp:21]
    }
    if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.dk, arguments.dk.token, row), lane, dk);  // [kda_k1.cpp:21]
    float dg_c[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float k_r = k_n[i] * _exp2_g_T_exp2_minus_g_c[i];           // [kda_k1.cpp:36]
      const float k_i = k_n[i] * _exp2_minus_g_c[i];                    // [kda_k1.cpp:35]
      const float k_d = k_n[i] * _exp2_g_c[i];                          // [kda_k1.cpp:34]
      const float q_d = q_n[i] * _exp2_g_c[i] * scale;                  // [kda_k1.cpp:33]
      dg_c[i] = fmaf(-dk_r[i], round_to<bf16>(k_r), fmaf(-dk_i[i], round_to<bf16>(k_i), fmaf(dk_d[i], round_to<bf16>(k_d), dq_d[i] * round_to<bf16>(q_d))));  // [kda_k1.cpp:29]
    }
    store4<true>(&dg_c_shared[row * 128 + 4 * lane], &dg_c[0]);
    store4<true>(&dg_c_shared[row * 128 + 64 + 4 * lane], &dg_c[4]);
    block_barrier();  // dg_c_shared is complete
    kda_k1_bwd_stage<aligned>(arguments, shared, head, number + 2, begin, used_end, slot, record == 0 ? 2 : record - 1);
    float dg_c_column[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) dg_c_column[i] = dg_c_shared[(first_row + i) * 128 + column];
    // suffix sum of dg_c: inside blocks of 8 rows, absent rows skipped                 // [kda_k1.cpp:29]
    float _suffix_dg_c[8];
    #pragma unroll
    for (int i = 7; i >= 0; --i) {
      const float term = i < rows_here ? dg_c_column[i] : 0.0f;
      _suffix_dg_c[i] = i == 7 ? term : _suffix_dg_c[i + 1] + term;
    }
    dg_c_blocks[block * 128 + column] = _suffix_dg_c[0];
    block_barrier();  // dg_c_blocks is complete
    // and the blocks after
    float _suffix_dg_c_before = 0.0f;
    float _suffix_dg_c_carry = 0.0f;
    #pragma unroll
    for (int b = 1; b >= 0; --b) {
      if (b == block) _suffix_dg_c_before = _suffix_dg_c_carry;
      _suffix_dg_c_carry += dg_c_blocks[b * 128 + column];
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) _suffix_dg_c[i] = _suffix_dg_c_before + _suffix_dg_c[i];
    float dz[8];
    float _dz_g_raw_plus_dt_bias[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float dg = _suffix_dg_c[i] + dg_T;                          // [kda_k1.cpp:28]
      dz[i] = dg * _z_times_z_2[i] * lower_bound;                       // [kda_k1.cpp:28]
      _dz_g_raw_plus_dt_bias[i] = dz[i] * _g_raw_plus_dt_bias[i];       // [kda_k1.cpp:27]
    }
    // sum over the rows of _dz_g_raw_plus_dt_bias: blocks of 8 rows first              // [kda_k1.cpp:27]
    float _total_dz_block = 0.0f;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < rows_here) _total_dz_block = i == 0 ? _dz_g_raw_plus_dt_bias[i] : _total_dz_block + _dz_g_raw_plus_dt_bias[i];
    }
    _dz_g_raw_plus_dt_bias_blocks[block * 128 + column] = _total_dz_block;
    float dg_raw[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      dg_raw[i] = dz[i] * _finite_exp_A_log;                            // [kda_k1.cpp:27]
    }
    // sum over the rows of dg_raw: blocks of 8 rows first              // [kda_k1.cpp:27]
    float _total_dg_raw_block = 0.0f;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < rows_here) _total_dg_raw_block = i == 0 ? dg_raw[i] : _total_dg_raw_block + dg_raw[i];
    }
    dg_raw_blocks[block * 128 + column] = _total_dg_raw_block;
    {
      bf16* const place = row_of<aligned>(here.dg_raw, arguments.dg_raw.token, first_row) + column;
      #pragma unroll
      for (int i = 0; i < 8; ++i) if (i < rows_here) *row_of<aligned>(place, arguments.dg_raw.token, i) = to<bf16>(dg_raw[i]);  // [kda_k1.cpp:21]
    }
    block_barrier();  // _dz_g_raw_plus_dt_bias_blocks is complete
    float _total_dz = _dz_g_raw_plus_dt_bias_blocks[column];            // [kda_k1.cpp:27]
    #pragma unroll
    for (int b = 1; b < 2; ++b) _total_dz += _dz_g_raw_plus_dt_bias_blocks[b * 128 + column];
    _sum_total_dz_sum += _total_dz;                                     // [kda_k1.cpp:27]
    float _total_dg_raw = dg_raw_blocks[column];                        // [kda_k1.cpp:27]
    #pragma unroll
    for (int b = 1; b < 2; ++b) _total_dg_raw += dg_raw_blocks[b * 128 + column];
    ddt_bias_sum += _total_dg_raw;                                      // [kda_k1.cpp:27]
  }
  if (block == 0) arguments._sum_total_dz_sum_partial[(head * arguments.segments + group) * 128 + column] = _sum_total_dz_sum;
  if (block == 0) arguments.ddt_bias_sum_partial[(head * arguments.segments + group) * 128 + column] = ddt_bias_sum;
  // After the last sequence: dead rows are set to 0.
  for (long long number = used_end < begin ? begin : used_end; number < end; ++number) {
    const Tile tile = find_surplus_tile(number, 16, arguments.tokens, arguments.sequences, arguments.first_tile, arguments.sequence_start);
    const float zeros[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int row = step_row; row < tile.rows; row += 16) {
      store_row<aligned>(arguments.dq.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.dk.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.dg_raw.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.dv.at(tile.batch, tile.token + row, head), lane, zeros);
      if (lane == 0) *arguments.dbeta_raw.at(tile.batch, tile.token + row, head) = to<bf16>(0.0f);
    }
  }
}

#if KD_ALIGNED_VARIANT
KD_KERNEL(256, 2) void kda_k1_bwd(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  kda_k1_bwd_tiles<true>(arguments, shared);
}
KD_ENTRY(kda_k1_bwd, Arguments);
#endif

#if KD_ANY_VARIANT
KD_KERNEL(256, 2) void kda_k1_bwd_any(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  kda_k1_bwd_tiles<false>(arguments, shared);
}
KD_ENTRY(kda_k1_bwd_any, Arguments);
#endif

// Parameter sums, second stage: the segments (8 consecutive tiles of a head) by the balanced tree over their numbers.
KD_KERNEL(256, 0) void kda_k1_bwd_segments(const Arguments arguments) {
  KD_SHARED(float, parts, 256);
  const long long head = blockIdx.x % arguments.heads;
  const int column = static_cast<int>(blockIdx.x / arguments.heads) * 32 + static_cast<int>(threadIdx.x % 32);
  const int which = static_cast<int>(blockIdx.y);
  const int width = 128;
  const float* const terms = which == 0 ? arguments._sum_total_dz_sum_partial : arguments.ddt_bias_sum_partial;
  float* const results = which == 0 ? arguments._sum_total_dz_sum_columns : arguments.ddt_bias_sum_columns;
  const float* const first_term = terms + head * arguments.segments * width + column;
  sum_segments(arguments.segments, column < width, parts, results + head * width + column, [&](long long segment) {
    return first_term[segment * width];
  });
}
KD_ENTRY(kda_k1_bwd_segments, Arguments);

// Parameter sums, last stage: features, heads, and the adjoints of values made of parameters alone. One row of lanes.
template <bool aligned>
KD_FUNCTION void kda_k1_bwd_finish_body(const Arguments& arguments) {
  const int lane = static_cast<int>(threadIdx.x % 16);
  (void)lane;
  const long long head = blockIdx.x;
  (void)head;
  float _sum_total_dz[8];
  load4<true>(arguments._sum_total_dz_sum_columns + head * 128 + 4 * lane, &_sum_total_dz[0]);
  load4<true>(arguments._sum_total_dz_sum_columns + head * 128 + 64 + 4 * lane, &_sum_total_dz[4]);
  float ddt_bias[8];
  load4<true>(arguments.ddt_bias_sum_columns + head * 128 + 4 * lane, &ddt_bias[0]);
  load4<true>(arguments.ddt_bias_sum_columns + head * 128 + 64 + 4 * lane, &ddt_bias[4]);
  const float _row_sum_sum_total_dz = row_sum(_sum_total_dz, lane);     // [kda_k1.cpp:27]
  const float A_log = to_float(*(arguments.A_log + head));              // [kda_k1.cpp:23]
  const float dA_log = _row_sum_sum_total_dz * (largest_float < expf(A_log) ? largest_float : expf(A_log));  // [kda_k1.cpp:27]
  if (threadIdx.x == 0) *(arguments.dA_log + head) = to<float>(dA_log);                 // [kda_k1.cpp:23]
  if (threadIdx.x < 16) store_row<aligned>(arguments.ddt_bias + head * 128, lane, ddt_bias);        // [kda_k1.cpp:23]
}

#if KD_ALIGNED_VARIANT
KD_KERNEL(32, 0) void kda_k1_bwd_finish(const Arguments arguments) { kda_k1_bwd_finish_body<true>(arguments); }
KD_ENTRY(kda_k1_bwd_finish, Arguments);
#endif
#if KD_ANY_VARIANT
KD_KERNEL(32, 0) void kda_k1_bwd_finish_any(const Arguments arguments) { kda_k1_bwd_finish_body<false>(arguments); }
KD_ENTRY(kda_k1_bwd_finish_any, Arguments);
#endif
