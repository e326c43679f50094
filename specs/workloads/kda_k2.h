// SPDX-License-Identifier: Apache-2.0
// The consumer of kda_k1 in float64: the chunk recurrence of one head and its reverse-mode gradient, by hand.
//
//   A = tril(k_d k_i^T, -1)     M = tril(q_d k_i^T)     u_r = beta_r (v_r - k_d,r S - sum_{s<r} A_rs u_s)
//   o = q_d S + M u             S' = decay[:,None] S + k_r^T u             loss = sum(o * output_cotangent)
//
// S is [dim, dim], zero at the start of a sequence; the value width equals dim.
#pragma once
#include <cstdint>
#include <vector>

namespace kdagen {

/// One chunk as the consumer multiplies it; matrices are [rows, dim] row-major. Per feature an integer `anchor` a keeps
/// every factor in range: q_d and k_d are stored times 2^-a, k_i times 2^a, which changes no product and no rounding.
struct ChunkOperands {
  int64_t rows = 0;
  std::vector<double> q_d, k_d, k_i, k_r;
  std::vector<double> anchor;    ///< [dim] a
  std::vector<double> decay;     ///< [dim] 2^{g_T}
  std::vector<double> diagonal;  ///< [rows] M_rr handed over separately; empty: taken from q_d and k_i
  std::vector<double> v, beta;   ///< [rows, dim], [rows]
  std::vector<double> output_cotangent;
};

/// d loss / d operand. q_d and k_d are stored times 2^a, k_i times 2^-a, so that operand * cotangent is the true
/// product. With `diagonal` handed over, its gradient is separate and missing from q_d and k_i.
struct ChunkCotangents {
  std::vector<double> q_d, k_d, k_i, k_r;
  std::vector<double> decay_exponent;  ///< [dim] d loss / d g_T through the decay, divided by ln2: decay * <S, dS'>
  std::vector<double> diagonal;        ///< [rows], empty when the operand is
  std::vector<double> v, beta;
};

/// Runs the chunks of one sequence and head forward and backward; returns the loss. `round_products` rounds dA and dM
/// once to bf16, the rounded numbers serving both the row and the column side.
double run_kda_k2(const std::vector<ChunkOperands>& chunks, int64_t dim, bool round_products,
                  std::vector<ChunkCotangents>& cotangents);

}  // namespace kdagen
