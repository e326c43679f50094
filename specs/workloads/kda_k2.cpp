// SPDX-License-Identifier: Apache-2.0
#include "specs/workloads/kda_k2.h"

#include <cmath>

#include "specs/workloads/tensor.h"

namespace kdagen {
namespace {

using Vector = std::vector<double>;

/// Eight partial sums: the vectoriser may not reorder a single one.
double dot(const double* a, const double* b, int64_t n) {
  double partial[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int lane = 0; lane < 8; ++lane) partial[lane] += a[i + lane] * b[i + lane];
  for (; i < n; ++i) partial[i % 8] += a[i] * b[i];
  return ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
         ((partial[4] + partial[5]) + (partial[6] + partial[7]));
}

void axpy(double factor, const double* x, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

/// What the reverse pass needs of a chunk's forward.
struct ChunkState {
  Vector state;       ///< S [dim, dim] before the chunk
  Vector scale;       ///< [dim] 2^anchor
  Vector pair_k;      ///< A [rows, rows], zero on and above the diagonal
  Vector pair_q;      ///< M [rows, rows], zero above the diagonal
  Vector correction;  ///< u / beta [rows, dim]
  Vector u;           ///< [rows, dim]
};

void form_pairs(const ChunkOperands& chunk, int64_t dim, ChunkState& saved) {
  const int64_t rows = chunk.rows;
  saved.pair_k.assign(rows * rows, 0.0);
  saved.pair_q.assign(rows * rows, 0.0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t s = 0; s <= r; ++s) {
      if (s < r) saved.pair_k[r * rows + s] = dot(&chunk.k_d[r * dim], &chunk.k_i[s * dim], dim);
      bool given = s == r && !chunk.diagonal.empty();
      saved.pair_q[r * rows + s] = given ? chunk.diagonal[r] : dot(&chunk.q_d[r * dim], &chunk.k_i[s * dim], dim);
    }
}

/// Advances `state` over the chunk and returns its part of the loss.
double forward_chunk(const ChunkOperands& chunk, int64_t dim, Vector& state, ChunkState& saved) {
  const int64_t rows = chunk.rows;
  saved.state = state;
  saved.scale.resize(dim);
  for (int64_t d = 0; d < dim; ++d) saved.scale[d] = std::exp2(chunk.anchor[d]);
  form_pairs(chunk, dim, saved);

  saved.correction = chunk.v;
  saved.u.assign(rows * dim, 0.0);
  Vector output(dim);
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r) {
    double* correction = &saved.correction[r * dim];
    std::fill(output.begin(), output.end(), 0.0);
    for (int64_t d = 0; d < dim; ++d) {
      axpy(-chunk.k_d[r * dim + d] * saved.scale[d], &state[d * dim], correction, dim);
      axpy(chunk.q_d[r * dim + d] * saved.scale[d], &state[d * dim], output.data(), dim);
    }
    for (int64_t s = 0; s < r; ++s) axpy(-saved.pair_k[r * rows + s], &saved.u[s * dim], correction, dim);
    axpy(chunk.beta[r], correction, &saved.u[r * dim], dim);
    for (int64_t s = 0; s <= r; ++s) axpy(saved.pair_q[r * rows + s], &saved.u[s * dim], output.data(), dim);
    loss += dot(output.data(), &chunk.output_cotangent[r * dim], dim);
  }
  for (int64_t d = 0; d < dim; ++d) {
    double* row = &state[d * dim];
    for (int64_t e = 0; e < dim; ++e) row[e] *= chunk.decay[d];
    for (int64_t r = 0; r < rows; ++r) axpy(chunk.k_r[r * dim + d], &saved.u[r * dim], row, dim);
  }
  return loss;
}

/// dx = (I + L)^-T du with L = beta A; returns w, the cotangent of beta * (v - k_d S).
Vector solve_transposed(const ChunkOperands& chunk, int64_t dim, const ChunkState& saved,
                        const Vector& state_cotangent) {
  const int64_t rows = chunk.rows;
  Vector w(rows * dim, 0.0);
  for (int64_t r = rows - 1; r >= 0; --r) {
    double* row = &w[r * dim];
    for (int64_t s = r; s < rows; ++s) axpy(saved.pair_q[s * rows + r], &chunk.output_cotangent[s * dim], row, dim);
    for (int64_t d = 0; d < dim; ++d) axpy(chunk.k_r[r * dim + d], &state_cotangent[d * dim], row, dim);
    for (int64_t s = r + 1; s < rows; ++s) axpy(-chunk.beta[s] * saved.pair_k[s * rows + r], &w[s * dim], row, dim);
  }
  return w;
}

/// The parts of dq_d, dk_d, dk_i (and the diagonal) that come through A and M.
void pair_cotangents(const ChunkOperands& chunk, int64_t dim, bool round_products, const ChunkState& saved,
                     const Vector& w, ChunkCotangents& result) {
  const FloatFormat& bf16 = float_format("bf16");
  auto rounded = [&](double x) { return round_products ? round_to(x, bf16) : x; };
  for (int64_t r = 0; r < chunk.rows; ++r)
    for (int64_t s = 0; s <= r; ++s) {
      double d_pair_q = rounded(dot(&chunk.output_cotangent[r * dim], &saved.u[s * dim], dim));
      if (s == r && !chunk.diagonal.empty()) {
        result.diagonal[r] = d_pair_q;
        continue;
      }
      axpy(d_pair_q, &chunk.k_i[s * dim], &result.q_d[r * dim], dim);
      axpy(d_pair_q, &chunk.q_d[r * dim], &result.k_i[s * dim], dim);
      if (s == r) continue;
      double d_pair_k = rounded(-chunk.beta[r] * dot(&w[r * dim], &saved.u[s * dim], dim));
      axpy(d_pair_k, &chunk.k_i[s * dim], &result.k_d[r * dim], dim);
      axpy(d_pair_k, &chunk.k_d[r * dim], &result.k_i[s * dim], dim);
    }
}

/// `state_cotangent` is dS' on entry and dS on return.
ChunkCotangents backward_chunk(const ChunkOperands& chunk, int64_t dim, bool round_products, const ChunkState& saved,
                               Vector& state_cotangent) {
  const int64_t rows = chunk.rows;
  ChunkCotangents result;
  for (Vector* matrix : {&result.q_d, &result.k_d, &result.k_i, &result.k_r, &result.v})
    matrix->assign(rows * dim, 0.0);
  result.diagonal.assign(chunk.diagonal.size(), 0.0);
  result.beta.assign(rows, 0.0);
  result.decay_exponent.assign(dim, 0.0);

  Vector w = solve_transposed(chunk, dim, saved, state_cotangent);
  pair_cotangents(chunk, dim, round_products, saved, w, result);
  for (int64_t r = 0; r < rows; ++r) {
    axpy(chunk.beta[r], &w[r * dim], &result.v[r * dim], dim);
    result.beta[r] = dot(&w[r * dim], &saved.correction[r * dim], dim);
  }
  for (int64_t d = 0; d < dim; ++d) {
    const double* state = &saved.state[d * dim];
    double* cotangent = &state_cotangent[d * dim];
    const double scale = saved.scale[d];
    result.decay_exponent[d] = chunk.decay[d] * dot(state, cotangent, dim);
    for (int64_t r = 0; r < rows; ++r) {
      result.q_d[r * dim + d] += scale * dot(&chunk.output_cotangent[r * dim], state, dim);
      result.k_d[r * dim + d] -= scale * dot(&result.v[r * dim], state, dim);
      result.k_r[r * dim + d] = dot(&saved.u[r * dim], cotangent, dim);
    }
    for (int64_t e = 0; e < dim; ++e) cotangent[e] *= chunk.decay[d];
    for (int64_t r = 0; r < rows; ++r) {
      axpy(chunk.q_d[r * dim + d] * scale, &chunk.output_cotangent[r * dim], cotangent, dim);
      axpy(-chunk.k_d[r * dim + d] * scale, &result.v[r * dim], cotangent, dim);
    }
  }
  return result;
}

}  // namespace

double run_kda_k2(const std::vector<ChunkOperands>& chunks, int64_t dim, bool round_products,
                  std::vector<ChunkCotangents>& cotangents) {
  Vector state(dim * dim, 0.0);
  std::vector<ChunkState> saved(chunks.size());
  double loss = 0;
  for (size_t n = 0; n < chunks.size(); ++n) loss += forward_chunk(chunks[n], dim, state, saved[n]);

  cotangents.resize(chunks.size());
  Vector state_cotangent(dim * dim, 0.0);
  for (size_t n = chunks.size(); n-- > 0;) {
    cotangents[n] = backward_chunk(chunks[n], dim, round_products, saved[n], state_cotangent);
    saved[n] = ChunkState();
  }
  return loss;
}

}  // namespace kdagen
