// SPDX-License-Identifier: Apache-2.0
#include "specs/workloads/kda_handover.h"

#include <array>
#include <cmath>
#include <numbers>

namespace kdagen {

void OperandRounding::apply(const PlacedTile& place, const PreambleChunk& chunk, ChunkOperands& operands) const {
  round_matrix("q_d", 1, place, chunk, operands, operands.q_d);
  round_matrix("k_d", 1, place, chunk, operands, operands.k_d);
  round_matrix("k_i", -1, place, chunk, operands, operands.k_i);
  round_matrix("k_r", 0, place, chunk, operands, operands.k_r);
  if (const HostTensor* g_T = handed_over("g_T"))
    for (int64_t d = 0; d < shape_.dim; ++d) operands.decay[d] = std::exp2(g_T->values[place.chunk(shape_) + d]);
  const HostTensor* qk = handed_over("qk");
  for (size_t r = 0; qk && r < operands.diagonal.size(); ++r) operands.diagonal[r] = qk->values[place.row(shape_, r)];
}

const HostTensor* OperandRounding::handed_over(const std::string& name) const {
  if (!forward_) return nullptr;
  auto found = forward_->find(name);
  return found == forward_->end() ? nullptr : &found->second;
}

namespace {

/// Rounds as the format does to numbers near 1, whatever the exponent.
double round_mantissa(double x, const FloatFormat& format) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::ilogb(x);
  return std::ldexp(round_to(std::ldexp(x, -exponent), format), exponent);
}

}  // namespace

void OperandRounding::round_matrix(const std::string& name, int sign, const PlacedTile& place,
                                   const PreambleChunk& chunk, const ChunkOperands& operands,
                                   std::vector<double>& values) const {
  const FloatFormat& bf16 = float_format("bf16");
  const bool raw = options_.handover == "raw";
  const HostTensor* stored = raw ? handed_over(name) : nullptr;
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const int64_t r = i / shape_.dim, d = i % shape_.dim;
    // A form without these outputs leaves their storage to the consumer, which keeps them in range.
    const double shift = raw ? std::exp2(sign * (operands.anchor[d] + chunk.stored_anchor[i])) : 1.0;
    const double number = stored ? stored->values[place.row(shape_, r) * shape_.dim + d]
                          : raw  ? round_to(values[i] * shift, bf16)
                                 : round_mantissa(values[i], bf16);
    values[i] = number / shift;
  }
}

namespace {

std::vector<std::string> row_cotangents(const std::string& handover) {
  if (handover == "premult") return {"dq_p", "dk_p", "dk_m"};
  if (handover == "premult4") return {"dq_p", "dk_p", "dk_mi", "dk_mr"};
  if (handover == "fused") return {"dq_n", "dk_n", "dg_c"};
  return {"dq_d", "dk_d", "dk_i", "dk_r"};
}

}  // namespace

HandOver::HandOver(const PreambleOptions& options, const Shape& shape) : options_(options), shape_(shape) {
  names_ = row_cotangents(options.handover);
  std::vector<int64_t> rows{shape.batch, shape.tokens(), shape.heads};
  result_["dbeta"] = make_tensor("dbeta", "f64", rows);
  if (options.diagonal) result_["dqk"] = make_tensor("dqk", "f64", rows);
  rows.push_back(shape.dim);
  for (const std::string& name : names_) result_[name] = make_tensor(name, "f64", rows);
  result_["dv_out"] = make_tensor("dv_out", "f64", rows);
  if (options.handover != "fused")
    result_["dg_T"] = make_tensor("dg_T", "f64", {shape.capacity(), shape.heads, shape.dim});
}

namespace {

/// The row cotangents of one element, in the order of row_cotangents.
std::array<double, 4> form_element(const PreambleOptions& options, int64_t i, int64_t d, const PreambleChunk& chunk,
                                   const ChunkOperands& operands, const ChunkCotangents& c) {
  const double a = operands.anchor[d];
  if (options.handover == "raw") {
    const double back = std::exp2(-a - chunk.stored_anchor[i]);
    return {c.q_d[i] * back, c.k_d[i] * back, c.k_i[i] / back, c.k_r[i]};
  }
  const double rise = std::exp2(chunk.g_c[i] - a), fall = std::exp2(a - chunk.g_c[i]);
  const double dq_n = c.q_d[i] * rise * options.scale, positive = c.k_d[i] * rise;
  const double negative_i = c.k_i[i] * fall, negative_r = c.k_r[i] * std::exp2(chunk.g_T[d] - chunk.g_c[i]);
  if (options.handover == "premult") return {dq_n, positive, negative_i + negative_r, 0};
  if (options.handover == "premult4") return {dq_n, positive, negative_i, negative_r};
  const double dg_c =
      operands.q_d[i] * c.q_d[i] + operands.k_d[i] * c.k_d[i] - operands.k_i[i] * c.k_i[i] - operands.k_r[i] * c.k_r[i];
  return {dq_n, positive + (negative_i + negative_r), dg_c, 0};
}

}  // namespace

void HandOver::write(const PlacedTile& place, const PreambleChunk& chunk, const ChunkOperands& operands,
                     const ChunkCotangents& cotangents) {
  const int64_t dim = shape_.dim;
  const bool fused = options_.handover == "fused";
  std::vector<double*> forms;
  for (const std::string& name : names_) forms.push_back(result_[name].values.data());
  double* dv_out = result_["dv_out"].values.data();
  for (int64_t d = 0; d < dim; ++d) {
    double total = cotangents.decay_exponent[d] * (options_.pure ? std::numbers::ln2 : 1.0);
    for (int64_t r = 0; r < chunk.rows && !options_.pure; ++r)
      total += operands.k_r[r * dim + d] * cotangents.k_r[r * dim + d];
    for (int64_t r = 0; r < chunk.rows; ++r) {
      const int64_t at = place.row(shape_, r) * dim + d;
      const std::array<double, 4> element = form_element(options_, r * dim + d, d, chunk, operands, cotangents);
      for (size_t form = 0; form < forms.size(); ++form) forms[form][at] = element[form];
      if (fused && r == chunk.rows - 1) forms[2][at] += total;
      dv_out[at] = cotangents.v[r * dim + d];
    }
    if (!fused) result_["dg_T"].values[place.chunk(shape_) + d] = total;
  }
  for (int64_t r = 0; r < chunk.rows; ++r) {
    result_["dbeta"].values[place.row(shape_, r)] = cotangents.beta[r];
    if (options_.diagonal) result_["dqk"].values[place.row(shape_, r)] = cotangents.diagonal[r];
  }
}

namespace {

/// One element's part of dq_n, dk_n and dg_c; `through_k_r` is k_r*dk_r, not contained in dg_c.
struct HandedElement {
  double dq_n, dk_n, dg_c, through_k_r;
};

HandedElement read_element(const PreambleOptions& options, int64_t i, int64_t d, const PreambleChunk& chunk,
                           const ChunkOperands& operands, const std::array<double, 4>& up) {
  if (options.handover == "fused") return {up[0], up[1], up[2], 0};
  if (options.handover != "raw") {
    const double through = options.handover == "premult4" ? up[3] : 0;
    return {up[0], up[1] + up[2] + through, chunk.q_n[i] * up[0] + chunk.k_n[i] * (up[1] - up[2]),
            chunk.k_n[i] * through};
  }
  const double a = operands.anchor[d], to_anchor = std::exp2(a + chunk.stored_anchor[i]);
  const double rise = std::exp2(chunk.g_c[i] - a), fall = std::exp2(a - chunk.g_c[i]);
  const double rest = std::exp2(chunk.g_T[d] - chunk.g_c[i]);
  const double dq_d = up[0] * to_anchor, dk_d = up[1] * to_anchor, dk_i = up[2] / to_anchor;
  return {dq_d * rise * options.scale, dk_d * rise + dk_i * fall + up[3] * rest,
          operands.q_d[i] * dq_d + operands.k_d[i] * dk_d - operands.k_i[i] * dk_i, operands.k_r[i] * up[3]};
}

}  // namespace

ChunkGradient handed_gradient(const PreambleOptions& options, const Shape& shape, const PlacedTile& place,
                              const PreambleChunk& chunk, const ChunkOperands& operands, const Tensors& upstream) {
  const int64_t dim = shape.dim, rows = chunk.rows;
  std::vector<const double*> forms;
  for (const std::string& name : row_cotangents(options.handover)) forms.push_back(upstream.at(name).values.data());
  ChunkGradient result;
  for (auto* matrix : {&result.dq_n, &result.dk_n, &result.dg, &result.dv}) matrix->resize(rows * dim);
  for (int64_t r = 0; r < rows; ++r) result.dbeta.push_back(upstream.at("dbeta").values[place.row(shape, r)]);
  for (int64_t d = 0; d < dim; ++d) {
    double total = options.handover == "fused" ? 0 : upstream.at("dg_T").values[place.chunk(shape) + d];
    if (options.pure) total *= std::numbers::log2e;
    std::vector<double> through_k_r(rows);
    double suffix = 0, prefix = 0;
    for (int64_t r = rows - 1; r >= 0; --r) {
      const int64_t i = r * dim + d, at = place.row(shape, r) * dim + d;
      std::array<double, 4> up{};
      for (size_t form = 0; form < forms.size(); ++form) up[form] = forms[form][at];
      const HandedElement element = read_element(options, i, d, chunk, operands, up);
      const double dqk = options.diagonal ? options.scale * upstream.at("dqk").values[place.row(shape, r)] : 0;
      result.dq_n[i] = element.dq_n + dqk * chunk.k_n[i];
      result.dk_n[i] = element.dk_n + dqk * chunk.q_n[i];
      result.dv[i] = upstream.at("dv_out").values[at];
      through_k_r[r] = element.through_k_r;
      suffix += options.pure ? element.dg_c : element.dg_c - element.through_k_r;
      result.dg[i] = suffix + total;
    }
    for (int64_t r = 0; r < rows && options.pure; ++r) {
      result.dg[r * dim + d] += prefix;
      prefix += through_k_r[r];
    }
  }
  return result;
}

}  // namespace kdagen
