// SPDX-License-Identifier: Apache-2.0
// gla backward, derived: GLA preamble: log-sigmoid gate per feature, decayed q and k
//   spec 1cc0e57e9dfbf0ff  sm_90  tile 16 rows x 128 columns in 1 step  threads=256,tiles_per_block=4,min_blocks=2,heads_fastest=1,stages=2
//   remake: kdagen emit gla --pass bwd
//
//   g = -softplus(-g_raw)*(gate_divisor^-1*log2e)                                                        [spec:14]
//   g_c = cumsum_t(g)                                                                                    [spec:15]
//   _exp2_suffix_g = 2^suffix_sum_t_exclusive(g)                                                         [spec:17]
//   q_d = q*2^g_c*scale                                                                                  [spec:16]
//   k_r = k*_exp2_suffix_g                                                                               [spec:17]
//   dk = dk_r*_exp2_suffix_g    -> bf16                                                                  [spec:17]
//   dq = dq_d*2^g_c*scale    -> bf16                                                                     [spec:16]
//   dg = suffix_sum_t(dq_d*round_bf16(q_d) + dg_c) + cumsum_t_exclusive(dk_r*round_bf16(k_r)) + dg_T     [spec:14]
//   dg_raw = dg*sigmoid(-g_raw)*gate_divisor^-1    -> bf16                                               [spec:14]
#include <kdagen/device.cuh>
#include <kdagen/staging.cuh>

constexpr float gate_divisor_1 = 0.0625f;  // gate_divisor^-1
constexpr float gate_divisor_1_log2e = 0.09016844f;  // gate_divisor^-1*log2e
constexpr float log2e = 1.442695f;  // log2e
constexpr float scale = 0.088388346f;  // scale

struct Arguments {
  TensorMap q_map;  // for the copy engine
  TensorMap k_map;  // for the copy engine
  TensorMap g_raw_map;  // for the copy engine
  TensorMap dq_d_map;  // for the copy engine
  TensorMap dk_r_map;  // for the copy engine
  TensorMap dg_c_map;  // for the copy engine
  TensorMap dg_T_map;  // for the copy engine
  Rows<const bf16> q;  // input [t, h, d]
  Rows<const bf16> k;  // input [t, h, d]
  Rows<const bf16> g_raw;  // input [t, h, d]
  Rows<const float> dq_d;  // cotangent [t, h, d]
  Rows<const float> dk_r;  // cotangent [t, h, d]
  Rows<const float> dg_c;  // cotangent [t, h, d]
  Tiles<const float> dg_T;  // cotangent [h, d]
  Rows<bf16> dq;  // gradient [t, h, d]
  Rows<bf16> dk;  // gradient [t, h, d]
  Rows<bf16> dg_raw;  // gradient [t, h, d]
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
  bf16* dq;
  bf16* dk;
  bf16* dg_raw;
};

// Row map: 16 lanes a row; lane l owns the columns 4l..4l+3 (x[0..3]) and 64+4l..64+4l+3 (x[4..7]).
template <bool aligned, class T>
KD_FUNCTION void store_row(T* to_where, int lane, const float (&x)[8]) {
  T* const place = to_where + 4 * lane;
  store4<aligned>(place, &x[0]);
  store4<aligned>(place + 64, &x[4]);
}

KD_KERNEL(256, 0) void gla_bwd_first_tile(const __grid_constant__ Arguments arguments) {
  KD_SHARED(long long, counts, 256);
  write_first_tiles(Offsets{arguments.cu_seqlens, arguments.offset_bytes, arguments.tokens}, arguments.sequences, 16,
                    arguments.first_tile, arguments.sequence_start, counts);
}
KD_ENTRY(gla_bwd_first_tile, Arguments);

/// Asks for the operands of tile `number`, one of the block's tiles begin..end-1. aligned: thread 0 asks the copy engine,
/// and whoever waits for the slot's counter sees them. Else all threads copy; seen after a barrier.
template <bool aligned>
KD_FUNCTION void gla_bwd_stage(const Arguments& arguments, float* shared, long long head, long long number, long long begin, long long end, int slot, int record) {
  if (number >= end || (aligned && threadIdx.x != 0)) return;
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 1024);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 1028);
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
      made.dg_raw = before.dg_raw + 16 * arguments.dg_raw.token;
    }
    else {
      made.dq = arguments.dq.at(where.batch, where.token, head);
      made.dk = arguments.dk.at(where.batch, where.token, head);
      made.dg_raw = arguments.dg_raw.at(where.batch, where.token, head);
    }
    next = made;
  }
  if constexpr (!aligned) block_barrier();  // the record is complete
  const Tile tile = tile_of(next.tile);
  float* const operands = shared + 1088 + slot * 9344;
  if constexpr (aligned) {
    expect_bytes(&arrivals[slot], 37376, &next);
    fetch_box(operands + 0, arguments.q_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 1024, arguments.k_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 2048, arguments.g_raw_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 3072, arguments.dq_d_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 5120, arguments.dk_r_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 7168, arguments.dg_c_map, tile.token, head, tile.batch, &arrivals[slot]);
    fetch_box(operands + 9216, arguments.dg_T_map, 0, number, head, &arrivals[slot]);
  }
  else {
    copy_box(reinterpret_cast<bf16*>(operands + 0), arguments.q.at(tile.batch, tile.token, head), arguments.q.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<bf16*>(operands + 1024), arguments.k.at(tile.batch, tile.token, head), arguments.k.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<bf16*>(operands + 2048), arguments.g_raw.at(tile.batch, tile.token, head), arguments.g_raw.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<float*>(operands + 3072), arguments.dq_d.at(tile.batch, tile.token, head), arguments.dq_d.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<float*>(operands + 5120), arguments.dk_r.at(tile.batch, tile.token, head), arguments.dk_r.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<float*>(operands + 7168), arguments.dg_c.at(tile.batch, tile.token, head), arguments.dg_c.token, tile.rows, 16, 128, 256);
    copy_box(reinterpret_cast<float*>(operands + 9216), arguments.dg_T.at(head, number, 0), 0, 1, 1, 128, 256);
  }
}

template <bool aligned>
KD_FUNCTION void gla_bwd_tiles(const Arguments& arguments, float* shared) {
  // Row map: 16 lanes a row, 16 rows at a time.
  const int lane = static_cast<int>(threadIdx.x % 16), step_row = static_cast<int>(threadIdx.x / 16);
  // Column map: one column, one block of 8 rows.
  const int column = static_cast<int>(threadIdx.x % 128), block = static_cast<int>(threadIdx.x / 128);
  const int row = step_row, first_row = 8 * block;
  (void)lane, (void)row, (void)column, (void)first_row;
  float* const g_blocks = shared + 0;
  float* const g_blocks_2 = shared + 256;
  float* const _fma_dq_d_blocks = shared + 512;
  float* const _dk_r_round_k_r_blocks = shared + 768;
  const unsigned heads = static_cast<unsigned>(arguments.heads), head_number = blockIdx.x % heads, group_number = blockIdx.x / heads;
  const long long head = head_number, group = group_number;
  (void)shared, (void)head;
  const long long begin = group * 4, end = begin + 4 < arguments.tiles ? begin + 4 : arguments.tiles;
  // Tiles from `used` on lie after the last sequence.
  const long long used = arguments.cu_seqlens != nullptr ? arguments.first_tile[arguments.sequences] : arguments.tiles;
  const long long used_end = used < end ? used : end;
  // Operands travel 2 tiles ahead.
  Arrival* const arrivals = reinterpret_cast<Arrival*>(shared + 1024);
  Slot* const slots = reinterpret_cast<Slot*>(shared + 1028);
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
  for (int ahead = 0; ahead < 2; ++ahead) gla_bwd_stage<aligned>(arguments, shared, head, begin + ahead, begin, used_end, ahead, ahead);
  // One record more than slots: the last tile's is read to its end, while the next operands are asked for.
  int slot = 0, record = 0;
  unsigned phase = 0;
  for (long long number = begin; number < used_end; ++number, next_slot(slot, phase, 2), record = record == 2 ? 0 : record + 1) {
    if constexpr (aligned) wait_for(&arrivals[slot], phase);
    else block_barrier();  // the slot is complete
    const Slot& here = slots[record];
    const Tile tile = tile_of(here.tile);
    const int rows_here = tile.rows - first_row;  // rows of this thread's block that are there: i < rows_here
    (void)rows_here;

    const float* const operands = shared + 1088 + slot * 9344;
    const bf16* const q_staged = reinterpret_cast<const bf16*>(operands);
    const bf16* const k_staged = reinterpret_cast<const bf16*>(operands + 1024);
    const bf16* const g_raw_staged = reinterpret_cast<const bf16*>(operands + 2048);
    const float* const dq_d_staged = operands + 3072;
    const float* const dk_r_staged = operands + 5120;
    const float* const dg_c_staged = operands + 7168;
    const float* const dg_T_staged = operands + 9216;
    const float dg_T = to_float((dg_T_staged)[column]);                 // [gla.cpp:19]
    float g_raw[8];                                                     // [gla.cpp:12]
    #pragma unroll
    for (int i = 0; i < 8; ++i) g_raw[i] = to_float((g_raw_staged + (first_row + i) * 128)[column]);
    float _minus_g_raw[8];
    float _exp2_g_raw[8];
    float g[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      _minus_g_raw[i] = -g_raw[i];                                      // [gla.cpp:14]
      _exp2_g_raw[i] = approx_exp2(-fabsf(_minus_g_raw[i]) * log2e);    // [gla.cpp:14]
      g[i] = -((_minus_g_raw[i] < 0.0f ? 0.0f : _minus_g_raw[i]) + log1pf(_exp2_g_raw[i])) * gate_divisor_1_log2e;  // [gla.cpp:14]
    }
    // cumulative sum of g: inside blocks of 8 rows, absent rows skipped                // [gla.cpp:15]
    float g_c[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float term = i < rows_here ? g[i] : 0.0f;
      g_c[i] = i == 0 ? term : g_c[i - 1] + term;
    }
    g_blocks[block * 128 + column] = g_c[7];
    // suffix sum of g: inside blocks of 8 rows, absent rows skipped    // [gla.cpp:17]
    float _suffix_g[8];
    #pragma unroll
    for (int i = 7; i >= 0; --i) {
      const float term = i < rows_here ? g[i] : 0.0f;
      _suffix_g[i] = i == 7 ? term : _suffix_g[i + 1] + term;
    }
    g_blocks_2[block * 128 + column] = _suffix_g[0];
    block_barrier();  // g_blocks is complete
    // and the blocks before
    float g_c_before = 0.0f;
    float g_c_carry = 0.0f;
    #pragma unroll
    for (int b = 0; b < 2; ++b) {
      if (b == block) g_c_before = g_c_carry;
      g_c_carry += g_blocks[b * 128 + column];
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) g_c[i] = g_c_before + g_c[i];
    // and the blocks after
    float _suffix_g_before = 0.0f;
    float _suffix_g_carry = 0.0f;
    #pragma unroll
    for (int b = 1; b >= 0; --b) {
      if (b == block) _suffix_g_before = _suffix_g_carry;
      _suffix_g_carry += g_blocks_2[b * 128 + column];
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) _suffix_g[i] = i == 7 ? _suffix_g_before : _suffix_g_before + _suffix_g[i + 1];
    float dq_d[8];                                                      // [gla.cpp:16]
    #pragma unroll
    for (int i = 0; i < 8; ++i) dq_d[i] = to_float((dq_d_staged + (first_row + i) * 128)[column]);
    float q[8];                                                         // [gla.cpp:12]
    #pragma unroll
    for (int i = 0; i < 8; ++i) q[i] = to_float((q_staged + (first_row + i) * 128)[column]);
    float _exp2_g_c[8];
    float _round_q_d[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      _exp2_g_c[i] = approx_exp2(g_c[i]);                               // [gla.cpp:16]
      const float q_d = q[i] * _exp2_g_c[i] * scale;                    // [gla.cpp:16]
      _round_q_d[i] = round_to<bf16>(q_d);                              // [gla.cpp:16]
    }
    float dg_c[8];                                                      // [gla.cpp:18]
    #pragma unroll
    for (int i = 0; i < 8; ++i) dg_c[i] = to_float((dg_c_staged + (first_row + i) * 128)[column]);
    float _fma_dq_d[8];
    float _dq_d_exp2_g_c[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      _fma_dq_d[i] = fmaf(dq_d[i], _round_q_d[i], dg_c[i]);             // [gla.cpp:14]
      _dq_d_exp2_g_c[i] = dq_d[i] * _exp2_g_c[i];                       // [gla.cpp:16]
    }
    // suffix sum of _fma_dq_d: inside blocks of 8 rows, absent rows skipped            // [gla.cpp:14]
    float _suffix_fma_dq_d[8];
    #pragma unroll
    for (int i = 7; i >= 0; --i) {
      const float term = i < rows_here ? _fma_dq_d[i] : 0.0f;
      _suffix_fma_dq_d[i] = i == 7 ? term : _suffix_fma_dq_d[i + 1] + term;
    }
    _fma_dq_d_blocks[block * 128 + column] = _suffix_fma_dq_d[0];
    float dk_r[8];                                                      // [gla.cpp:17]
    #pragma unroll
    for (int i = 0; i < 8; ++i) dk_r[i] = to_float((dk_r_staged + (first_row + i) * 128)[column]);
    float k[8];                                                         // [gla.cpp:12]
    #pragma unroll
    for (int i = 0; i < 8; ++i) k[i] = to_float((k_staged + (first_row + i) * 128)[column]);
    float _dk_r_round_k_r[8];
    float dk[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float _exp2_suffix_g = approx_exp2(_suffix_g[i]);           // [gla.cpp:17]
      const float k_r = k[i] * _exp2_suffix_g;                          // [gla.cpp:17]
      _dk_r_round_k_r[i] = dk_r[i] * round_to<bf16>(k_r);               // [gla.cpp:17]
      dk[i] = dk_r[i] * _exp2_suffix_g;                                 // [gla.cpp:17]
    }
    // cumulative sum of _dk_r_round_k_r: inside blocks of 8 rows, absent rows skipped  // [gla.cpp:14]
    float _prefix_dk_r_round_k_r[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float term = i < rows_here ? _dk_r_round_k_r[i] : 0.0f;
      _prefix_dk_r_round_k_r[i] = i == 0 ? term : _prefix_dk_r_round_k_r[i - 1] + term;
    }
    _dk_r_round_k_r_blocks[block * 128 + column] = _prefix_dk_r_round_k_r[7];
    float dq[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      dq[i] = _dq_d_exp2_g_c[i] * scale;                                // [gla.cpp:16]
    }
    {
      bf16* const place = row_of<aligned>(here.dq, arguments.dq.token, first_row) + column;
      #pragma unroll
      for (int i = 0; i < 8; ++i) if (i < rows_here) *row_of<aligned>(place, arguments.dq.token, i) = to<bf16>(dq[i]);  // [gla.cpp:12]
    }
    {
      bf16* const place = row_of<aligned>(here.dk, arguments.dk.token, first_row) + column;
      #pragma unroll
      for (int i = 0; i < 8; ++i) if (i < rows_here) *row_of<aligned>(place, arguments.dk.token, i) = to<bf16>(dk[i]);  // [gla.cpp:12]
    }
    block_barrier();  // _fma_dq_d_blocks is complete
    gla_bwd_stage<aligned>(arguments, shared, head, number + 2, begin, used_end, slot, record == 0 ? 2 : record - 1);
    // and the blocks after
    float _suffix_fma_dq_d_before = 0.0f;
    float _suffix_fma_dq_d_carry = 0.0f;
    #pragma unroll
    for (int b = 1; b >= 0; --b) {
      if (b == block) _suffix_fma_dq_d_before = _suffix_fma_dq_d_carry;
      _suffix_fma_dq_d_carry += _fma_dq_d_blocks[b * 128 + column];
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) _suffix_fma_dq_d[i] = _suffix_fma_dq_d_before + _suffix_fma_dq_d[i];
    // and the blocks before
    float _prefix_dk_r_round_k_r_before = 0.0f;
    float _prefix_dk_r_round_k_r_carry = 0.0f;
    #pragma unroll
    for (int b = 0; b < 2; ++b) {
      if (b == block) _prefix_dk_r_round_k_r_before = _prefix_dk_r_round_k_r_carry;
      _prefix_dk_r_round_k_r_carry += _dk_r_round_k_r_blocks[b * 128 + column];
    }
    #pragma unroll
    for (int i = 7; i >= 0; --i) _prefix_dk_r_round_k_r[i] = i == 0 ? _prefix_dk_r_round_k_r_before : _prefix_dk_r_round_k_r_before + _prefix_dk_r_round_k_r[i - 1];
    float dg_raw[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float dg = _suffix_fma_dq_d[i] + _prefix_dk_r_round_k_r[i] + dg_T;          // [gla.cpp:14]
      const float _rcp_exp2_g_raw = approx_rcp_normal(1.0f + _exp2_g_raw[i]);           // [gla.cpp:14]
      dg_raw[i] = dg * (0.0f <= _minus_g_raw[i] ? _rcp_exp2_g_raw : _exp2_g_raw[i] * _rcp_exp2_g_raw) * gate_divisor_1;  // [gla.cpp:14]
    }
    {
      bf16* const place = row_of<aligned>(here.dg_raw, arguments.dg_raw.token, first_row) + column;
      #pragma unroll
      for (int i = 0; i < 8; ++i) if (i < rows_here) *row_of<aligned>(place, arguments.dg_raw.token, i) = to<bf16>(dg_raw[i]);  // [gla.cpp:12]
    }
  }
  // After the last sequence: dead rows are set to 0.
  for (long long number = used_end < begin ? begin : used_end; number < end; ++number) {
    const Tile tile = find_surplus_tile(number, 16, arguments.tokens, arguments.sequences, arguments.first_tile, arguments.sequence_start);
    const float zeros[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    for (int row = step_row; row < tile.rows; row += 16) {
      store_row<aligned>(arguments.dq.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.dk.at(tile.batch, tile.token + row, head), lane, zeros);
      store_row<aligned>(arguments.dg_raw.at(tile.batch, tile.token + row, head), lane, zeros);
    }
  }
}

#if KD_ALIGNED_VARIANT
KD_KERNEL(256, 2) void gla_bwd(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  gla_bwd_tiles<true>(arguments, shared);
}
KD_ENTRY(gla_bwd, Arguments);
#endif

#if KD_ANY_VARIANT
KD_KERNEL(256, 2) void gla_bwd_any(const __grid_constant__ Arguments arguments) {
  KD_DYNAMIC_SHARED(float, shared);
  gla_bwd_tiles<false>(arguments, shared);
}
KD_ENTRY(gla_bwd_any, Arguments);
#endif

