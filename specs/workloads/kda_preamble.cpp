// SPDX-License-Identifier: Apache-2.0
#include "specs/workloads/kda_preamble.h"

#include <cmath>
#include <numbers>

#include <kdagen/error.h>

namespace kdagen {
namespace {

constexpr int64_t subchunk_rows = 16;  // as the compiler cuts chunks
constexpr double log2e = std::numbers::log2e;

struct Sigmoid {
  double value, slope;
};

// With e = exp(-|z|) neither the value nor the slope e/(1+e)^2 cancels at saturation.
Sigmoid sigmoid(double z) {
  double e = std::exp(-std::fabs(z));
  double inverse = 1 / (1 + e);
  return {z >= 0 ? inverse : e * inverse, e * inverse * inverse};
}

std::string choice(const Problem& problem, const std::string& name, const std::vector<std::string>& allowed) {
  std::string value = problem.options.text(name, allowed.front());
  std::string list;
  for (const std::string& candidate : allowed) {
    if (candidate == value) return value;
    list += (list.empty() ? "" : ", ") + candidate;
  }
  throw UsageError("option " + name + "=" + value + ": the workload of " + problem.spec + " knows " + list);
}

void normalise(const double* x, int64_t dim, double eps, double* normal, double& inverse) {
  double sum = 0;
  for (int64_t d = 0; d < dim; ++d) sum += x[d] * x[d];
  inverse = 1 / std::sqrt(sum + eps);
  for (int64_t d = 0; d < dim; ++d) normal[d] = x[d] * inverse;
}

/// dx = (dy - y <dy, y>) * inverse, exact for any eps >= 0.
void normalise_backward(const double* y, const double* dy, double inverse, int64_t dim, double* dx) {
  double along = 0;
  for (int64_t d = 0; d < dim; ++d) along += dy[d] * y[d];
  for (int64_t d = 0; d < dim; ++d) dx[d] = (dy[d] - y[d] * along) * inverse;
}

const std::vector<double>& values(const Tensors& tensors, const std::string& name) {
  auto found = tensors.find(name);
  if (found == tensors.end()) throw UsageError("input " + name + " is missing");
  return found->second.values;
}

}  // namespace

bool PreambleOptions::static_anchor_serves(int64_t chunk) const {
  return static_cast<double>(chunk) * std::fabs(lower_bound) * log2e / 2 + 1 <= 126;
}

PreambleOptions preamble_options(const Problem& problem) {
  PreambleOptions options;
  options.lower_bound = problem.options.number("lower_bound", options.lower_bound);
  options.eps = problem.options.number("eps", options.eps);
  options.scale = problem.options.number("scale", 1 / std::sqrt(static_cast<double>(problem.shape.dim)));
  options.handover = choice(problem, "handover", {"raw", "premult", "premult4", "fused"});
  options.pure = choice(problem, "gt", {"k2", "pure"}) == "pure";
  options.diagonal = choice(problem, "diag", {"0", "1"}) == "1";
  const std::string anchor = choice(problem, "anchor", {"none", "static", "subchunk"});
  options.anchored = anchor != "none";
  options.subchunk = anchor == "subchunk" ? subchunk_rows : 0;
  if (options.pure && (options.handover == "premult" || options.handover == "fused"))
    throw UsageError("option gt=pure: handover=" + options.handover + " is gt=k2; use handover=raw or premult4");
  if (options.anchored)
    options.anchor = std::lrint(static_cast<double>(options.subchunk ? options.subchunk : problem.shape.chunk) *
                                std::fabs(options.lower_bound) * log2e / 2);
  return options;
}

PreambleChunk run_preamble(const PreambleOptions& options, const Tensors& inputs, const Shape& shape, const Tile& tile,
                           int64_t head) {
  const int64_t dim = shape.dim, rows = tile.rows;
  const auto &q = values(inputs, "q"), &k = values(inputs, "k"), &v = values(inputs, "v");
  const auto &g_raw = values(inputs, "g_raw"), &beta_raw = values(inputs, "beta_raw");
  const double a = std::exp(values(inputs, "A_log")[head]);
  const double* dt_bias = &values(inputs, "dt_bias")[head * dim];

  PreambleChunk chunk;
  chunk.rows = rows;
  for (auto* matrix : {&chunk.q_n, &chunk.k_n, &chunk.sigmoid_slope, &chunk.g_c, &chunk.stored_anchor})
    matrix->resize(rows * dim);
  for (auto* column : {&chunk.q_inv, &chunk.k_inv, &chunk.beta, &chunk.beta_slope}) column->resize(rows);
  chunk.g_T.assign(dim, 0.0);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = (tile.first_row + r) * shape.heads + head;
    normalise(&q[row * dim], dim, options.eps, &chunk.q_n[r * dim], chunk.q_inv[r]);
    normalise(&k[row * dim], dim, options.eps, &chunk.k_n[r * dim], chunk.k_inv[r]);
    for (int64_t d = 0; d < dim; ++d) {
      Sigmoid gate = sigmoid(a * (g_raw[row * dim + d] + dt_bias[d]));
      chunk.sigmoid_slope[r * dim + d] = gate.slope;
      chunk.g_T[d] += options.lower_bound * log2e * gate.value;
      chunk.g_c[r * dim + d] = chunk.g_T[d];
      const int64_t before = options.subchunk ? r / options.subchunk * options.subchunk - 1 : -1;
      chunk.stored_anchor[r * dim + d] =
          static_cast<double>(options.anchor) - (before < 0 ? 0 : std::rint(chunk.g_c[before * dim + d]));
    }
    Sigmoid beta = sigmoid(beta_raw[row]);
    chunk.beta[r] = beta.value;
    chunk.beta_slope[r] = beta.slope;
    chunk.v.insert(chunk.v.end(), &v[row * dim], &v[row * dim] + dim);
  }
  return chunk;
}

void take_stored_anchors(const PreambleOptions& options, const Tensors* anchors, const Shape& shape,
                         int64_t tile_number, int64_t head, PreambleChunk& chunk) {
  if (!anchors || options.subchunk == 0) return;
  const std::vector<double>& stored = values(*anchors, "q_d_anchor");
  const int64_t parts = (shape.chunk + options.subchunk - 1) / options.subchunk;
  for (int64_t i = 0; i < chunk.rows * shape.dim; ++i) {
    const int64_t part = i / shape.dim / options.subchunk, d = i % shape.dim;
    chunk.stored_anchor[i] = stored.at(((tile_number * parts + part) * shape.heads + head) * shape.dim + d);
  }
}

ChunkOperands exact_operands(const PreambleOptions& options, const PreambleChunk& chunk) {
  const int64_t dim = chunk.g_T.size(), size = chunk.rows * dim;
  ChunkOperands operands;
  operands.rows = chunk.rows;
  operands.v = chunk.v;
  operands.beta = chunk.beta;
  for (auto* matrix : {&operands.q_d, &operands.k_d, &operands.k_i, &operands.k_r}) matrix->resize(size);
  for (double g_T : chunk.g_T) {
    operands.anchor.push_back(std::rint(g_T / 2));
    operands.decay.push_back(std::exp2(g_T));
  }
  for (int64_t i = 0; i < size; ++i) {
    const int64_t d = i % dim;
    const double rise = std::exp2(chunk.g_c[i] - operands.anchor[d]);
    operands.q_d[i] = chunk.q_n[i] * rise * options.scale;
    operands.k_d[i] = chunk.k_n[i] * rise;
    operands.k_i[i] = chunk.k_n[i] * std::exp2(operands.anchor[d] - chunk.g_c[i]);
    operands.k_r[i] = chunk.k_n[i] * std::exp2(chunk.g_T[d] - chunk.g_c[i]);
  }
  return operands;
}

// g_c takes suffix sums, the chunk total's share lies on every row, and the k_r terms are an exclusive prefix sum
// because k_r depends on g_T - g_c.
ChunkGradient chunk_gradient(const PreambleOptions& options, const PreambleChunk& chunk, const ChunkOperands& operands,
                             const ChunkCotangents& cotangents) {
  const int64_t dim = chunk.g_T.size(), rows = chunk.rows;
  ChunkGradient result;
  result.dv = cotangents.v;
  result.dbeta = cotangents.beta;
  for (auto* matrix : {&result.dq_n, &result.dk_n, &result.dg}) matrix->resize(rows * dim);
  for (int64_t d = 0; d < dim; ++d) {
    double suffix = cotangents.decay_exponent[d], prefix = 0;
    for (int64_t r = rows - 1; r >= 0; --r) {
      const int64_t i = r * dim + d;
      const double rise = std::exp2(chunk.g_c[i] - operands.anchor[d]);
      result.dq_n[i] = cotangents.q_d[i] * rise * options.scale;
      result.dk_n[i] = cotangents.k_d[i] * rise + cotangents.k_i[i] * std::exp2(operands.anchor[d] - chunk.g_c[i]) +
                       cotangents.k_r[i] * std::exp2(chunk.g_T[d] - chunk.g_c[i]);
      suffix += operands.q_d[i] * cotangents.q_d[i] + operands.k_d[i] * cotangents.k_d[i] -
                operands.k_i[i] * cotangents.k_i[i];
      result.dg[i] = suffix;
    }
    for (int64_t i = d; i < rows * dim; i += dim) {
      result.dg[i] += prefix;
      prefix += operands.k_r[i] * cotangents.k_r[i];
    }
  }
  return result;
}

Tensors zero_gradients(const Tensors& inputs) {
  Tensors gradients;
  for (const char* name : {"q", "k", "v", "g_raw", "beta_raw", "A_log", "dt_bias"}) {
    std::string gradient = std::string("d") + name;
    gradients[gradient] = make_tensor(gradient, "f64", inputs.at(name).shape);
  }
  return gradients;
}

void accumulate_gradients(const PreambleOptions& options, const Tensors& inputs, const Shape& shape, const Tile& tile,
                          int64_t head, const PreambleChunk& chunk, const ChunkGradient& gradient, Tensors& gradients) {
  const int64_t dim = shape.dim;
  const double a = std::exp(values(inputs, "A_log")[head]);
  const double* dt_bias = &values(inputs, "dt_bias")[head * dim];
  const auto& g_raw = values(inputs, "g_raw");
  auto &dq = gradients["dq"].values, &dk = gradients["dk"].values, &dv = gradients["dv"].values;
  auto &dg_raw = gradients["dg_raw"].values, &ddt_bias = gradients["ddt_bias"].values;
  double& dA_log = gradients["dA_log"].values[head];
  for (int64_t r = 0; r < chunk.rows; ++r) {
    const int64_t row = (tile.first_row + r) * shape.heads + head;
    for (int64_t d = 0; d < dim; ++d) {
      const int64_t i = r * dim + d, at = row * dim + d;
      // gate_scale * ln2 = lower_bound
      dg_raw[at] = gradient.dg[i] * options.lower_bound * chunk.sigmoid_slope[i] * a;
      ddt_bias[head * dim + d] += dg_raw[at];
      dA_log += dg_raw[at] * (g_raw[at] + dt_bias[d]);
      dv[at] = gradient.dv[i];
    }
    normalise_backward(&chunk.q_n[r * dim], &gradient.dq_n[r * dim], chunk.q_inv[r], dim, &dq[row * dim]);
    normalise_backward(&chunk.k_n[r * dim], &gradient.dk_n[r * dim], chunk.k_inv[r], dim, &dk[row * dim]);
    gradients["dbeta_raw"].values[row] = gradient.dbeta[r] * chunk.beta_slope[r];
  }
}

}  // namespace kdagen
