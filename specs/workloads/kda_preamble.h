// SPDX-License-Identifier: Apache-2.0
// kda_k1's forward and reverse-mode gradient in float64, written by hand and independent of the compiler: row
// normalisation, gate, in-chunk cumulative sum. Exponents (g_c, g_T) are in log2 units.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "specs/workloads/kda_k2.h"
#include "specs/workloads/workload.h"

namespace kdagen {

/// kda_k1's options, with the defaults of the spec.
struct PreambleOptions {
  double lower_bound = -5;  ///< nats per token
  double scale = 0;         ///< on q; 1/sqrt(dim) unless set
  double eps = 1e-6;
  std::string handover = "raw";  ///< raw, premult, premult4 or fused
  bool pure = false;             ///< gt=pure: dg_T is the plain cotangent of g_T
  bool diagonal = false;         ///< diag=1: M's diagonal is an output of its own
  bool anchored = false;         ///< anchor=static or subchunk
  int64_t subchunk = 0;          ///< rows of a sub-chunk with anchor=subchunk, else 0
  int64_t anchor = 0;            ///< n: see PreambleChunk::stored_anchor; 0 unless anchored

  /// Whether one n keeps the exponents of a chunk inside a float, with a power of two to spare.
  bool static_anchor_serves(int64_t chunk) const;
};
/// Throws UsageError on values that kda_k1 does not have, and on gt=pure with premult or fused.
PreambleOptions preamble_options(const Problem& problem);

/// One chunk of one head; matrices are [rows, dim].
struct PreambleChunk {
  int64_t rows = 0;
  std::vector<double> q_n, k_n;
  std::vector<double> q_inv, k_inv;   ///< [rows] 1/sqrt(sum x^2 + eps)
  std::vector<double> sigmoid_slope;  ///< sigmoid'(a (g_raw + dt_bias))
  std::vector<double> g_c;
  std::vector<double> g_T;  ///< [dim]
  /// [rows, dim] s: q_d, k_d are stored times 2^s, k_i times 2^-s. n, or by sub-chunk n - rint(g_c of the row before
  /// it).
  std::vector<double> stored_anchor;
  std::vector<double> beta, beta_slope;  ///< [rows] sigmoid and sigmoid' of beta_raw
  std::vector<double> v;
};
PreambleChunk run_preamble(const PreambleOptions& options, const Tensors& inputs, const Shape& shape, const Tile& tile,
                           int64_t head);

/// Replaces the chunk's own anchors by those that were stored (q_d_anchor), if they are by sub-chunk and given.
void take_stored_anchors(const PreambleOptions& options, const Tensors* anchors, const Shape& shape,
                         int64_t tile_number, int64_t head, PreambleChunk& chunk);

/// The exact operands of the consumer, anchored per feature at rint(g_T/2).
ChunkOperands exact_operands(const PreambleOptions& options, const PreambleChunk& chunk);

/// d loss / d (q_n, k_n, g, v, beta) of one chunk; `dg` in units of ln2.
struct ChunkGradient {
  std::vector<double> dq_n, dk_n, dg, dv, dbeta;
};
/// The cotangents must be those of the given operands with no separate diagonal.
ChunkGradient chunk_gradient(const PreambleOptions& options, const PreambleChunk& chunk, const ChunkOperands& operands,
                             const ChunkCotangents& cotangents);

/// Zero-filled dq, dk, dg_raw, dv, dbeta_raw, dA_log, ddt_bias in the inputs' shapes.
Tensors zero_gradients(const Tensors& inputs);
/// Carries one chunk's gradient back through normalisation, gate and sigmoids into `gradients`.
void accumulate_gradients(const PreambleOptions& options, const Tensors& inputs, const Shape& shape, const Tile& tile,
                          int64_t head, const PreambleChunk& chunk, const ChunkGradient& gradient, Tensors& gradients);

}  // namespace kdagen
