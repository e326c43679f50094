// SPDX-License-Identifier: Apache-2.0
// The same loss twice more, in long double and by other formulas than the workload's: token by token (no chunks, no
// exponents out of range), and the chunk recurrence with an explicit inverse.
#pragma once
#include <cmath>
#include <functional>
#include <vector>

#include "specs/workloads/kda_k1.h"
#include "specs/workloads/kda_k2.h"

namespace kdagen {

using Long = long double;

inline Long long_sigmoid(Long z) { return z >= 0 ? 1 / (1 + std::exp(-z)) : std::exp(z) / (1 + std::exp(z)); }

/// sum(o * output_cotangent) of  S = diag(e^g) S + k u^T,  u = beta (v - S^T k),  o = scale S^T q, in one head.
inline Long token_recurrence_loss(const Shape& shape, const std::map<std::string, std::vector<Long>>& x,
                                  const HostTensor& output_cotangent, double lower_bound, Long eps) {
  const int64_t H = shape.heads, D = shape.dim;
  auto normal = [&](const std::vector<Long>& values, int64_t row) {
    Long sum = eps;
    for (int64_t d = 0; d < D; ++d) sum += values[row * D + d] * values[row * D + d];
    std::vector<Long> y(D);
    for (int64_t d = 0; d < D; ++d) y[d] = values[row * D + d] / std::sqrt(sum);
    return y;
  };
  Long loss = 0;
  int64_t begin = 0;
  for (int64_t sequence = 0; sequence < shape.sequences(); ++sequence) {
    const int64_t length = shape.packed ? shape.seqlens[sequence] : shape.tokens();
    for (int64_t h = 0; h < H; ++h) {
      std::vector<Long> S(D * D, 0);
      for (int64_t t = begin; t < begin + length; ++t) {
        const int64_t row = t * H + h;
        std::vector<Long> q = normal(x.at("q"), row), k = normal(x.at("k"), row), u(D);
        for (int64_t d = 0; d < D; ++d) {
          Long z = std::exp(x.at("A_log")[h]) * (x.at("g_raw")[row * D + d] + x.at("dt_bias")[h * D + d]);
          for (int64_t e = 0; e < D; ++e) S[d * D + e] *= std::exp(lower_bound * long_sigmoid(z));
        }
        for (int64_t e = 0; e < D; ++e) {
          Long sum = x.at("v")[row * D + e];
          for (int64_t d = 0; d < D; ++d) sum -= k[d] * S[d * D + e];
          u[e] = long_sigmoid(x.at("beta_raw")[row]) * sum;
        }
        for (int64_t d = 0; d < D; ++d)
          for (int64_t e = 0; e < D; ++e) {
            S[d * D + e] += k[d] * u[e];
            loss += q[d] * S[d * D + e] * output_cotangent.values[row * D + e] / std::sqrt(Long(D));
          }
      }
    }
    begin += length;
  }
  return loss;
}

/// Operands of one chunk in long double, anchors removed.
struct LongChunk {
  int64_t rows;
  std::vector<Long> q_d, k_d, k_i, k_r, g_T, diagonal, v, beta, output_cotangent;
};

/// The chunk form with INV = (I + L)^-1 built column by column.
inline Long chunk_recurrence_loss(const std::vector<LongChunk>& chunks, int64_t D) {
  std::vector<Long> S(D * D, 0);
  Long loss = 0;
  for (const LongChunk& c : chunks) {
    const int64_t R = c.rows;
    auto pair = [&](const std::vector<Long>& a, const std::vector<Long>& b, int64_t r, int64_t s) {
      Long sum = 0;
      for (int64_t d = 0; d < D; ++d) sum += a[r * D + d] * b[s * D + d];
      return sum;
    };
    std::vector<Long> inverse(R * R, 0), u(R * D, 0);
    for (int64_t s = 0; s < R; ++s)
      for (int64_t r = s; r < R; ++r) {
        Long sum = r == s;
        for (int64_t m = s; m < r; ++m) sum -= c.beta[r] * pair(c.k_d, c.k_i, r, m) * inverse[m * R + s];
        inverse[r * R + s] = sum;
      }
    for (int64_t s = 0; s < R; ++s)
      for (int64_t e = 0; e < D; ++e) {
        Long x = c.v[s * D + e];
        for (int64_t d = 0; d < D; ++d) x -= c.k_d[s * D + d] * S[d * D + e];
        for (int64_t r = s; r < R; ++r) u[r * D + e] += inverse[r * R + s] * c.beta[s] * x;
      }
    for (int64_t r = 0; r < R; ++r)
      for (int64_t e = 0; e < D; ++e) {
        Long o = 0;
        for (int64_t d = 0; d < D; ++d) o += c.q_d[r * D + d] * S[d * D + e];
        for (int64_t s = 0; s <= r; ++s) {
          bool given = s == r && !c.diagonal.empty();
          o += (given ? c.diagonal[r] : pair(c.q_d, c.k_i, r, s)) * u[s * D + e];
        }
        loss += o * c.output_cotangent[r * D + e];
      }
    for (int64_t d = 0; d < D; ++d)
      for (int64_t e = 0; e < D; ++e) {
        S[d * D + e] *= std::exp2(c.g_T[d]);
        for (int64_t r = 0; r < R; ++r) S[d * D + e] += c.k_r[r * D + d] * u[r * D + e];
      }
  }
  return loss;
}

/// Central difference, extrapolated once (Richardson): the error is O(step^4).
inline Long derivative(const std::function<Long()>& loss, Long& x, Long step = 1e-3L) {
  const Long base = x;
  auto central = [&](Long h) {
    x = base + h;
    Long up = loss();
    x = base - h;
    Long down = loss();
    x = base;
    return (up - down) / (2 * h);
  };
  return (4 * central(step / 2) - central(step)) / 3;
}

}  // namespace kdagen
