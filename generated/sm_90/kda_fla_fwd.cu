// SPDX-License-Identifier: Apache-2.0
// kda_fla forward: KDA preamble of FLA: normalised q and k, cumulative gate, beta
//   gate=bounded
//   spec 5f1f5160315cb179  sm_90  tile 64 rows x 128 columns in 4 steps  threads=256,tiles_per_block=4,min_blocks=4,heads_fastest=1,stages=2
//   remake: kdagen emit kda_fla --pass fwd
//
//   x = g_raw + dt_bias                                                                                  [spec:20]
//   g = sigmoid(exp(A_log)*x)*(log2e*lower_bound)                                                        [spec:22]
//   q_n = q*rsqrt(sum_d(q*q) + eps)    -> bf16                                                           [spec:23]
//   k_n = k*rsqrt(sum_d(k*k) + eps)    -> bf16                                                           [spec:24]
//   g_c = cumsum_t(g)    -> f32                                                                          [spec:25]
//   beta = sigmoid(beta_raw)*beta_scale    -> f32                                                        [spec:26]
#include <kdagen/device.cuh>
#include <kdagen/staging.cuh>

constexpr float beta_scale = 1.0f;  // beta_scale
constexpr float eps = 1e-06f;  // eps
constexpr float log2e = 1.442695f;  // log2e
constexpr float log2e_lower_bound = -7.213475f;  // log2e*lower_bound

struct Arguments {
  TensorMap q_map;  // for the copy engine
  TensorMap k_map;  // for the copy engine
  TensorMap g_raw_map;  // for the copy engine
  Rows<const bf16> q;  // input [t, h, d]
  Rows<const bf16> k;  // input [t, h, d]
  Rows<const bf16> g_raw;  // input [t, h, d]
  Rows<const bf16> beta_raw;  // input [t, h]
  const float* A_log;  // param [h]
  const float* dt_bias;  // param [h, d]
  Rows<bf16> q_n;  // output [t, h, d]
  Rows<bf16> k_n;  // output [t, h, d]
  Rows<float> g_c;  // output [t, h, d]
  Rows<float> beta;  // output [t, h]
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
  float* g_c;
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

KD_KERNEL(256, 0) void kda_fla_fwd_first_tile(const __grid_constant__ Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(Offsets{arguments.cu_seqlens, arguments.offset_bytes, arguments.tokens}, arguments.sequences, 64,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(kda_fla_fwd_first_tile, Arguments);

/// Asks for the operands of tile `number`, one of the block's tiles begin..end-1. aligned: thread 0 asks the copy engine,
/// and whoever waits for the slot's counter sees them. Else all threads copy; seen after a barrier.
/// `unit`: which of the 4 portions, each the rows of a step or of all steps.
template <bool aligned>
KD_FUNCTION void kda_fla_fwd_stage(const Arguments& arguments, float* shared, long long head, long long number, int unit, long long begin, long long end, int slot, int record) {
  if (number >= end || (aligned && threadIdx.x != 0)) return;
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 1024);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 1028);
  Slot& next = slots[record];
  (void)arrivals, (void)head;
  if (threadIdx.x == 0) {
    const long long* const sequence_start = arguments.cu_seqlens != nullptr ? arguments.sequence_start : nullptr;
    const Slot before = slots[record == 0 ? 2 : record - 1];
    Slot made = before;
    if (unit == 0) {
      const StagedTile where = next_staged_tile(before.tile, 64, sequence_start);
      made.tile = where;
      if (number != begin && where.batch == before.tile.batch && where.sequence == before.tile.sequence) {
        // the next 64 rows of the same sequence
        made.q_n = before.q_n + 64 * arguments.q_n.token;
        made.k_n = before.k_n + 64 * arguments.k_n.token;
        made.g_c = before.g_c + 64 * arguments.g_c.token;
      }
      else {
        made.q_n = arguments.q_n.at(where.batch, where.token, head);
        made.k_n = arguments.k_n.at(where.batch, where.token, head);
        made.g_c = arguments.g_c.at(where.batch, where.token, head);
      }
    }
    next = made;
  }
  if constexpr (!aligned) block_barrier();  // the record is complete
  const Tile tile = tile_of(next.tile);
  float* const operands = shared + 1088 + slot * 3072;
  if constexpr (aligned) {
    expect_bytes(&arrivals[slot], 12288, &next);
    const int first_row = (unit) * 16;
    fetch_box(operands + 0, arguments.q_map, tile.token + first_row, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 1024, arguments.k_map, tile.token + first_row, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 2048, arguments.g_raw_map, tile.token + first_row, head, tile.batch, &arrivals[slot]);
  }
  else {
    const int first_row = (unit) * 16;
    copy_box(reinterpret_cast<bf16*>(operands + 0), arguments.q.at(tile.batch, tile.token + first_row, head), arguments.q.token, tile.rows - first_row, 16, 128, 256);
    copy_box(reinterpret_cast<bf16*>(operands + 1024), arguments.k.at(tile.batch, tile.token + first_row, head), arguments.k.token, tile.rows - first_row, 16, 128, 256);
    copy_box(reinterpret_cast<bf16*>(operands + 2048), arguments.g_raw.at(tile.batch, tile.token + first_row, head), arguments.g_raw.token, tile.rows - first_row, 16, 128, 256);
  }
}

template <bool aligned>
KD_FUNCTION void kda_fla_fwd_tiles(const Arguments& arguments, float* shared) {
  // Row map: 16 lanes a row, 16 rows at a time.
  const int lane = static_cast<int>(threadIdx.x % 16), step_row = static_cast<int>(threadIdx.x / 16);
  // Column map: one column, one block of 8 rows.
  const int column = static_cast<int>(threadIdx.x % 128), block = static_cast<int>(threadIdx.x / 128);
  (void)lane, (void)step_row, (void)column, (void)block;
  float* const g_blocks = shared + 0;
  const unsigned heads = static_cast<unsigned>(arguments.heads), head_number = blockIdx.x % heads, group_number = blockIdx.x / heads;
  const long long head = head_number, group = group_number;
  (void)shared, (void)head;
  const long long begin = group * 4, end = begin + 4 < arguments.tiles ? begin + 4 : arguments.tiles;
  // Tiles from `used` on lie after the last sequence.
  const long long used = arguments.cu_seqlens != nullptr ? arguments.first_tile[arguments.sequences] : arguments.tiles;
  const long long used_end = used < end ? used : end;
  // Operands travel 2 portions ahead.
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 1024);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 1028);
  if (threadIdx.x == 0) {
    if constexpr (aligned) {
      for (int slot = 0; slot < 2; ++slot) initialise_arrival(&arrivals[slot]);
      publish_arrivals();
    }
    const long long* const first_tile = arguments.cu_seqlens != nullptr ? arguments.first_tile : nullptr;
    // the first tile is found as the one after this
    if (begin < used_end) slots[2] = Slot{staged_tile_before(begin, 64, arguments.tokens, arguments.sequences, first_tile, arguments.sequence_start)};
  }
  block_barrier();  // arrivals is complete
  for (int ahead = 0; ahead < 2; ++ahead) kda_fla_fwd_stage<aligned>(arguments, shared, head, begin + ahead / 4, ahead % 4, begin, used_end, ahead, ahead);
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
    const float _exp2_minus_abs_beta_raw = approx_exp2(-fabsf(beta_raw) * log2e);       // [kda_fla.cpp:26]
    const float _rcp_beta_raw = approx_rcp_normal(1.0f + _exp2_minus_abs_beta_raw);     // [kda_fla.cpp:26]
    const float beta = (0.0f <= beta_raw ? _rcp_beta_raw : _exp2_minus_abs_beta_raw * _rcp_beta_raw) * beta_scale;  // [kda_fla.cpp:26]
    if (own_row < tile.rows) *(arguments.beta.at(tile.batch, tile.token + own_row, head)) = to<float>(beta);  // [kda_fla.cpp:26]
  }
  for (long long number = begin; number < used_end; ++number) {
    if constexpr (aligned) wait_for(&arrivals[slot], phase);
    else block_barrier();  // the slot is complete
    const Slot here = slots[record];
    const Tile tile = tile_of(here.tile);

    float g_c_carry = 0.0f;
    for (int step = 0; step < 4; ++step, next_slot(slot, phase, 2), record = record == 2 ? 0 : record + 1) {
      const int row = step * 16 + step_row, first_row = step * 16 + 8 * block;
      (void)row, (void)first_row;
      const int rows_here = tile.rows - first_row;  // rows of this thread's block that are there: i < rows_here
      (void)rows_here;
      if constexpr (aligned) wait_for(&arrivals[slot], phase);
      else block_barrier();  // the slot is complete
      const Slot& here = slots[record];
      const int unit = 0 + step;
      const float* const operands = shared + 1088 + slot * 3072;
      const bf16* const q_staged = reinterpret_cast<const bf16*>(operands);
      const bf16* const k_staged = reinterpret_cast<const bf16*>(operands + 1024);
      const bf16* const g_raw_staged = reinterpret_cast<const bf16*>(operands + 2048);
      float q[8];                                                       // [kda_fla.cpp:15]
      load_row<true>((q_staged + step_row * 128), lane, true, q);
      const float _inverse_norm_q = row_inverse_norm(q, 1.0f, eps, lane);               // [kda_fla.cpp:23]
      float k[8];                                                       // [kda_fla.cpp:15]
      load_row<true>((k_staged + step_row * 128), lane, true, k);
      const float _inverse_norm_k = row_inverse_norm(k, 1.0f, eps, lane);               // [kda_fla.cpp:24]
      float q_n[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        q_n[i] = q[i] * _inverse_norm_q;                                // [kda_fla.cpp:23]
      }
      if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.q_n, arguments.q_n.token, row), lane, q_n);  // [kda_fla.cpp:23]
      float k_n[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        k_n[i] = k[i] * _inverse_norm_k;                                // [kda_fla.cpp:24]
      }
      if (row < tile.rows) store_row<aligned>(row_of<aligned>(here.k_n, arguments.k_n.token, row), lane, k_n);  // [kda_fla.cpp:24]
      float g_raw[8];                                                   // [kda_fla.cpp:15]
      #pragma unroll
      for (int i = 0; i < 8; ++i) g_raw[i] = to_float((g_raw_staged + (8 * block + i) * 128)[column]);
      float g[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float x = g_raw[i] + dt_bias;                             // [kda_fla.cpp:20]
        const float _finite_exp_A_log_x = _finite_exp_A_log * x;        // [kda_fla.cpp:22]
        const float _exp2_A_log = approx_exp2(-fabsf(_finite_exp_A_log_x) * log2e);     // [kda_fla.cpp:22]
        const float _rcp_exp2_A_log = approx_rcp_normal(1.0f + _exp2_A_log);            // [kda_fla.cpp:22]
        g[i] = (0.0f <= _finite_exp_A_log_x ? _rcp_exp2_A_log : _exp2_A_log * _rcp_exp2_A_log) * log2e_lower_bound;  // [kda_fla.cpp:22]
      }
      // cumulative sum of g: inside blocks of 8 rows, absent rows skipped              // [kda_fla.cpp:25]
      float g_c[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float term = i < rows_here ? g[i] : 0.0f;
        g_c[i] = i == 0 ? term : g_c[i - 1] + term;
      }
      g_blocks[(step * 2 + block) * 128 + column] = g_c[7];
      block_barrier();  // g_blocks is complete
      kda_fla_fwd_stage<aligned>(arguments, shared, head, number + (unit + 2) / 4, (unit + 2) % 4, begin, used_end, slot, record == 0 ? 2 : record - 1);
      // and the blocks before
      float g_c_before = 0.0f;
      #pragma unroll
      for (int b = 0; b < 2; ++b) {
        if (b == block) g_c_before = g_c_carry;
        g_c_carry += g_blocks[(step * 2 + b) * 128 + column];
      }
      #pragma unroll
      for (int i = 0; i < 8; ++i) g_c[i] = g_c_before + g_c[i];
      {
        float* const place = row_of<aligned>(here.g_c, arguments.g_c.token, first_row) + column;
        #pragma unroll
        for (int i = 0; i < 8; ++i) if (i < rows_here) *row_of<aligned>(place, arguments.g_c.token, i) = to<float>(g_c[i]);  // [kda_fla.cpp:25]
      }
    }
  }
  // After the last sequence: dead rows are set to 0.
  for (long long number = used_end < begin ? begin : used_end; number < end; ++number) {
    const Tile tile = find_surplus_tile(number, 64, arguments.tokens, arguments.sequences, arguments.first_tile, arguments.sequence_start);
    const float zeros[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int row = step_row; row < tile.rows; row += 16) {
      store_row<aligned>(arguments.q_n.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.k_n.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.g_c.at(tile.batch, tile.token + row, head), lane, zeros);
      if (lane == 0) *arguments.beta.at(tile.batch, tile.token + row, head) = to<float>(0.0f);
    }
  }
}

#if KD_ALIGNED_VARIANT
KD_KERNEL(256, 4) void kda_fla_fwd(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  kda_fla_fwd_tiles<true>(arguments, shared);
}
KD_ENTRY(kda_fla_fwd, Arguments);
#endif

#if KD_ANY_VARIANT
KD_KERNEL(256, 3) void kda_fla_fwd_any(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  kda_fla_fwd_tiles<false>(arguments, shared);
}
KD_ENTRY(kda_fla_fwd_any, Arguments);
#endif

