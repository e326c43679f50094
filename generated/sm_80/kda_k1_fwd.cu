// SPDX-License-Identifier: Apache-2.0
// kda_k1 forward: KDA preamble: normalised q and k, bounded gate, decay products of a chunk
//   anchor=none gt=k2 handover=raw
//   spec 8a6b6922a1643c31  sm_80  tile 16 rows x 128 columns in 1 step  threads=256,tiles_per_block=4,min_blocks=4,heads_fastest=1,stages=2
//   remake: kdagen emit kda_k1 --pass fwd --arch sm_80
//
//   q_inv = rsqrt(sum_d(q*q) + eps)                                                                      [spec:25]
//   q_n = q*q_inv                                                                                        [spec:25]
//   k_inv = rsqrt(sum_d(k*k) + eps)                                                                      [spec:26]
//   k_n = k*k_inv                                                                                        [spec:26]
//   z = exp(A_log)*(g_raw + dt_bias)                                                                     [spec:27]
//   g = sigmoid(z)*(log2e*lower_bound)                                                                   [spec:28]
//   g_c = cumsum_t(g)                                                                                    [spec:29]
//   g_T = sum_t(g)    -> f32                                                                             [spec:29]
//   q_d = q_n*2^g_c*scale    -> bf16                                                                     [spec:33]
//   k_d = k_n*2^g_c    -> bf16                                                                           [spec:34]
//   k_i = k_n*2^(-g_c)    -> bf16                                                                        [spec:35]
//   k_r = k_n*(2^g_T*2^(-g_c))    -> bf16                                                                [spec:36]
//   beta = sigmoid(beta_raw)    -> bf16                                                                  [spec:50]
//   v_out = v    -> bf16                                                                                 [spec:49]
#include <kdagen/device.cuh>
#include <kdagen/staging.cuh>

constexpr float eps = 1e-06f;  // eps
constexpr float log2e = 1.442695f;  // log2e
constexpr float log2e_lower_bound = -7.213475f;  // log2e*lower_bound
constexpr float scale = 0.088388346f;  // scale

struct Arguments {
  Rows<const bf16> q;  // input [t, h, d]
  Rows<const bf16> k;  // input [t, h, d]
  Rows<const bf16> g_raw;  // input [t, h, d]
  Rows<const bf16> v;  // input [t, h, d]
  Rows<const bf16> beta_raw;  // input [t, h]
  const float* A_log;  // param [h]
  const float* dt_bias;  // param [h, d]
  Rows<bf16> q_d;  // output [t, h, d]
  Rows<bf16> k_d;  // output [t, h, d]
  Rows<bf16> k_i;  // output [t, h, d]
  Rows<bf16> k_r;  // output [t, h, d]
  Tiles<float> g_T;  // output [h, d]
  Rows<bf16> v_out;  // output [t, h, d]
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

/// What thread 0 says of the tile in a slot: where it lies, and where its first row is in each tensor.
struct Slot {
  StagedTile tile;
  const bf16* q;
  const bf16* k;
  const bf16* g_raw;
  const bf16* v;
  bf16* q_d;
  bf16* k_d;
  bf16* k_i;
  bf16* k_r;
  float* g_T;
  bf16* v_out;
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

KD_KERNEL(256, 0) void kda_k1_fwd_first_tile(const Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(Offsets{arguments.cu_seqlens, arguments.offset_bytes, arguments.tokens}, arguments.sequences, 16,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(kda_k1_fwd_first_tile, Arguments);

/// Asks for the operands of tile `number`, one of the block's tiles begin..end-1. aligned: the threads start copies,
/// each its own, and wait for them later. Else they copy at once. Seen after a barrier.
template <bool aligned>
KD_FUNCTION void kda_k1_fwd_stage(const Arguments& arguments, float* shared, long long head, long long number, long long begin, long long end, int slot, int record) {
  if (number >= end) {
    if constexpr (aligned) end_of_copies();  // of none: waits count the requests
    return;
  }
  Slot* const slots = reinterpret_cast<Slot*>(shared + 2432);
  Slot& next = slots[record];
  (void)head;
  if (threadIdx.x == 0) {
    const long long* const sequence_start = arguments.cu_seqlens != nullptr ? arguments.sequence_start : nullptr;
    const Slot& before = slots[record == 0 ? 2 : record - 1];
    Slot& made = next;
    const StagedTile where = next_staged_tile(before.tile, 16, sequence_start);
    made.tile = where;
    if (number != begin && where.batch == before.tile.batch && where.sequence == before.tile.sequence) {
      // the next 16 rows of the same sequence
      made.q = before.q + 16 * arguments.q.token;
      made.k = before.k + 16 * arguments.k.token;
      made.g_raw = before.g_raw + 16 * arguments.g_raw.token;
      made.v = before.v + 16 * arguments.v.token;
      made.q_d = before.q_d + 16 * arguments.q_d.token;
      made.k_d = before.k_d + 16 * arguments.k_d.token;
      made.k_i = before.k_i + 16 * arguments.k_i.token;
      made.k_r = before.k_r + 16 * arguments.k_r.token;
      made.g_T = before.g_T + arguments.g_T.tile;
      made.v_out = before.v_out + 16 * arguments.v_out.token;
    }
    else {
      made.q = arguments.q.at(where.batch, where.token, head);
      made.k = arguments.k.at(where.batch, where.token, head);
      made.g_raw = arguments.g_raw.at(where.batch, where.token, head);
      made.v = arguments.v.at(where.batch, where.token, head);
      made.q_d = arguments.q_d.at(where.batch, where.token, head);
      made.k_d = arguments.k_d.at(where.batch, where.token, head);
      made.k_i = arguments.k_i.at(where.batch, where.token, head);
      made.k_r = arguments.k_r.at(where.batch, where.token, head);
      made.g_T = arguments.g_T.at(head, number, 0);
      made.v_out = arguments.v_out.at(where.batch, where.token, head);
    }
  }
  block_barrier();  // the record is complete
  const Tile tile = tile_of(next.tile);
  float* const operands = shared + 2528 + slot * 3072;
  if constexpr (aligned) {
    start_box(reinterpret_cast<bf16*>(operands + 0), next.q, arguments.q.token, tile.rows, 16, 128, 256);
    start_box(reinterpret_cast<bf16*>(operands + 1024), next.k, arguments.k.token, tile.rows, 16, 128, 256);
    start_box(reinterpret_cast<bf16*>(operands + 2048), next.g_raw, arguments.g_raw.token, tile.rows, 16, 128, 256);
    end_of_copies();
  }
  else {
    copy_box(reinterpret_cast<bf16*>(operands + 0), next.q, arguments.q.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<bf16*>(operands + 1024), next.k, arguments.k.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<bf16*>(operands + 2048), next.g_raw, arguments.g_raw.token, tile.rows, 16, 128, 256);
  }
}

template <bool aligned>
KD_FUNCTION void kda_k1_fwd_tiles(const Arguments& arguments, float* shared) {
  // Row map: 16 lanes a row, 16 rows at a time.
  const int lane = static_cast<int>(threadIdx.x % 16), step_row = static_cast<int>(threadIdx.x / 16);
  // Column map: one column, one block of 8 rows.
  const int column = static_cast<int>(threadIdx.x % 128), block = static_cast<int>(threadIdx.x / 128);
  const int row = step_row, first_row = 8 * block;
  (void)lane, (void)row, (void)column, (void)first_row;
  float* const g_blocks = shared + 2048;
  float* const g_c_shared = shared + 0;
  float* const _exp2_g_T_shared = shared + 2304;
  const unsigned heads = static_cast<unsigned>(arguments.heads), head_number = blockIdx.x % heads, group_number = blockIdx.x / heads;
  const long long head = head_number, group = group_number;
  (void)shared, (void)head;
  const long long begin = group * 4, end = begin + 4 < arguments.tiles ? begin + 4 : arguments.tiles;
  // Tiles from `used` on lie after the last sequence.
  const long long used = arguments.cu_seqlens != nullptr ? arguments.first_tile[arguments.sequences] : arguments.tiles;
  const long long used_end = used < end ? used : end;
  // Operands travel 2 tiles ahead.
  Slot* const slots = reinterpret_cast<Slot*>(shared + 2432);
  if (threadIdx.x == 0) {
    const long long* const first_tile = arguments.cu_seqlens != nullptr ? arguments.first_tile : nullptr;
    // the first tile is found as the one after this
    if (begin < used_end) slots[2] = Slot{staged_tile_before(begin, 16, arguments.tokens, arguments.sequences, first_tile, arguments.sequence_start)};
  }
  block_barrier();  // slots is complete
  for (int ahead = 0; ahead < 2; ++ahead) kda_k1_fwd_stage<aligned>(arguments, shared, head, begin + ahead, begin, used_end, ahead, ahead);
  // One record more than slots: the last tile's is read to its end, while the next operands are asked for.
  int slot = 0, record = 0;
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
    const float _exp2_minus_abs_beta_raw = approx_exp2(-fabsf(beta_raw) * log2e);       // [kda_k1.cpp:50]
    const float _rcp_beta_raw = approx_rcp_normal(1.0f + _exp2_minus_abs_beta_raw);     // [kda_k1.cpp:50]
    const float beta = 0.0f <= beta_raw ? _rcp_beta_raw : _exp2_minus_abs_beta_raw * _rcp_beta_raw;  // [kda_k1.cpp:50]
    if (own_row < tile.rows) *(arguments.beta.at(tile.batch, tile.token + own_row, head)) = to<bf16>(beta);  // [kda_k1.cpp:50]
  }
  for (long long number = begin; number < used_end; ++number, slot = slot == 1 ? 0 : slot + 1, record = record == 2 ? 0 : record + 1) {
    if constexpr (aligned) wait_for_copies<1>();
    block_barrier();  // the slot is complete
    const Slot& here = slots[record];
    const Tile tile = tile_of(here.tile);
    const int rows_here = tile.rows - first_row;  // rows of this thread's block that are there: i < rows_here
    (void)rows_here;

    const float* const operands = shared + 2528 + slot * 3072;
    const bf16* const q_staged = reinterpret_cast<const bf16*>(operands);
    const bf16* const k_staged = reinterpret_cast<const bf16*>(operands + 1024);
    const bf16* const g_raw_staged = reinterpret_cast<const bf16*>(operands + 2048);
    float v[8];                                                         // [kda_k1.cpp:22]
    load_row<aligned>(row_of<aligned>(here.v, arguments.v.token, row), lane, row < tile.rows && arguments.v_out.data != arguments.v.data, v);
    float q[8];                                                         // [kda_k1.cpp:21]
    load_row<true>((q_staged + row * 128), lane, true, q);
    const float q_inv = row_inverse_norm(q, 1.0f, eps, lane);           // [kda_k1.cpp:25]
    float k[8];                                                         // [kda_k1.cpp:21]
    load_row<true>((k_staged + row * 128), lane, true, k);
    const float k_inv = row_inverse_norm(k, 1.0f, eps, lane);           // [kda_k1.cpp:26]
    float g_raw[8];                                                     // [kda_k1.cpp:21]
    #pragma unroll
    for (int i = 0; i < 8; ++i) g_raw[i] = to_float((g_raw_staged + (first_row + i) * 128)[column]);
    float g[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float z = _finite_exp_A_log * (g_raw[i] + dt_bias);         // [kda_k1.cpp:27]
      const float _exp2_minus_abs_z = approx_exp2(-fabsf(z) * log2e);   // [kda_k1.cpp:28]
      const float _rcp_exp2_minus_abs_z = approx_rcp_normal(1.0f + _exp2_minus_abs_z);  // [kda_k1.cpp:28]
      g[i] = (0.0f <= z ? _rcp_exp2_minus_abs_z : _exp2_minus_abs_z * _rcp_exp2_minus_abs_z) * log2e_lower_bound;  // [kda_k1.cpp:28]
    }
    // cumulative sum of g: inside blocks of 8 rows, absent rows skipped                // [kda_k1.cpp:29]
    float g_c_column[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float term = i < rows_here ? g[i] : 0.0f;
      g_c_column[i] = i == 0 ? term : g_c_column[i - 1] + term;
    }
    g_blocks[block * 128 + column] = g_c_column[7];
    if (arguments.v_out.data != arguments.v.data && row < tile.rows) store_row<aligned>(row_of<aligned>(here.v_out, arguments.v_out.token, row), lane, v);  // [kda_k1.cpp:49]
    block_barrier();  // g_blocks is complete
    kda_k1_fwd_stage<aligned>(arguments, shared, head, number + 2, begin, used_end, slot, record == 0 ? 2 : record - 1);
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
    if (block == 0) (here.g_T)[column] = to<float>(g_T);                // [kda_k1.cpp:47]
    #pragma unroll
    for (int i = 0; i < 8; ++i) g_c_shared[(first_row + i) * 128 + column] = g_c_column[i];
    const float _exp2_g_T_column = approx_exp2_normal(g_T);             // [kda_k1.cpp:36]
    if (block == 0) _exp2_g_T_shared[column] = _exp2_g_T_column;
    float q_n[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      q_n[i] = q[i] * q_inv;                                            // [kda_k1.cpp:25]
    }
    block_barrier();  // g_c_shared is complete
    float g_c[8];
    load4<true>(&g_c_shared[row * 128 + 4 * lane], &g_c[0]);
    load4<true>(&g_c_shared[row * 128 + 64 + 4 * lane], &g_c[4]);
    float _exp2_g_c[8];
    float q_d[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      _exp2_g_c[i] = approx_exp2_normal(g_c[i]);                        // [kda_k1.cpp:33]
      q_d[i] = q_n[i] * _exp2_g_c[i] * scale;                           // [kda_k1.cpp:33]
    }
    if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.q_d, arguments.q_d.token, row), lane, q_d);  // [kda_k1.cpp:33]
    float k_n[8];
    float k_d[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      k_n[i] = k[i] * k_inv;                                            // [kda_k1.cpp:26]
      k_d[i] = k_n[i] * _exp2_g_c[i];                                   // [kda_k1.cpp:34]
    }
    if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.k_d, arguments.k_d.token, row), lane, k_d);  // [kda_k1.cpp:34]
    float _exp2_minus_g_c[8];
    float k_i[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      _exp2_minus_g_c[i] = approx_exp2_normal(-g_c[i]);                 // [kda_k1.cpp:35]
      k_i[i] = k_n[i] * _exp2_minus_g_c[i];                             // [kda_k1.cpp:35]
    }
    if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.k_i, arguments.k_i.token, row), lane, k_i);  // [kda_k1.cpp:35]
    float _exp2_g_T[8];
    load4<true>(&_exp2_g_T_shared[4 * lane], &_exp2_g_T[0]);
    load4<true>(&_exp2_g_T_shared[64 + 4 * lane], &_exp2_g_T[4]);
    float k_r[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      k_r[i] = k_n[i] * (_exp2_g_T[i] * _exp2_minus_g_c[i]);            // [kda_k1.cpp:36]
    }
    if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.k_r, arguments.k_r.token, row), lane, k_r);  // [kda_k1.cpp:36]
  }
  // After the last sequence: dead rows are set to 0.
  for (long long number = used_end < begin ? begin : used_end; number < end; ++number) {
    const Tile tile = find_surplus_tile(number, 16, arguments.tokens, arguments.sequences, arguments.first_tile, arguments.sequence_start);
    const float zeros[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int row = step_row; row < tile.rows; row += 16) {
      store_row<aligned>(arguments.q_d.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.k_d.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.k_i.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.k_r.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.v_out.at(tile.batch, tile.token + row, head), lane, zeros);
      if (lane == 0) *arguments.beta.at(tile.batch, tile.token + row, head) = to<bf16>(0.0f);
    }
    if (step_row == 0) store_row<aligned>(arguments.g_T.at(head, number, 0), lane, zeros);
  }
}

#if KD_ALIGNED_VARIANT
KD_KERNEL(256, 4) void kda_k1_fwd(const Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  kda_k1_fwd_tiles<true>(arguments, shared);
}
KD_ENTRY(kda_k1_fwd, Arguments);
#endif

#if KD_ANY_VARIANT
KD_KERNEL(256, 3) void kda_k1_fwd_any(const Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  kda_k1_fwd_tiles<false>(arguments, shared);
}
KD_ENTRY(kda_k1_fwd_any, Arguments);
#endif

