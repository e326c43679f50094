// SPDX-License-Identifier: Apache-2.0
// The workload of kda_k1: its consumer is the chunk recurrence of kda_k2.h.
#include "specs/workloads/kda_k1.h"

#include <array>
#include <cmath>
#include <numbers>

#include <kdagen/error.h>

#include "specs/workloads/kda_k2.h"
#include "specs/workloads/kda_preamble.h"

namespace kdagen {
namespace {

constexpr double ln2 = std::numbers::ln2;

/// A tile and its dense number.
struct PlacedTile {
  Tile tile;
  int64_t number;
};

std::vector<std::vector<PlacedTile>> tiles_by_sequence(const Shape& shape) {
  std::vector<std::vector<PlacedTile>> result(shape.sequences());
  int64_t number = 0;
  for (const Tile& tile : shape.tiles()) result[tile.sequence].push_back({tile, number++});
  return result;
}

void set_output_cotangent(const HostTensor& output_cotangent, const Shape& shape, const Tile& tile, int64_t head,
                          ChunkOperands& operands) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const double* row = &output_cotangent.values[((tile.first_row + r) * shape.heads + head) * shape.dim];
    operands.output_cotangent.insert(operands.output_cotangent.end(), row, row + shape.dim);
  }
}

/// Replaces exact operands by the bf16 numbers that are multiplied: those handed over, or own ones rounded where they
/// would be stored. `stored_exponent` s means the stored number is value * 2^s.
class OperandRounding {
 public:
  OperandRounding(const PreambleOptions& options, const Shape& shape, const ConsumerOptions& consumer)
      : options_(options), shape_(shape), forward_(consumer.forward) {}

  void apply(const PlacedTile& place, int64_t head, ChunkOperands& operands) const {
    matrix("q_d", options_.anchor, 1, place.tile, head, operands, operands.q_d);
    matrix("k_d", options_.anchor, 1, place.tile, head, operands, operands.k_d);
    matrix("k_i", -options_.anchor, -1, place.tile, head, operands, operands.k_i);
    matrix("k_r", 0, 0, place.tile, head, operands, operands.k_r);
    if (const HostTensor* g_T = handed_over("g_T"))
      for (int64_t d = 0; d < shape_.dim; ++d)
        operands.decay[d] = std::exp2(g_T->values[(place.number * shape_.heads + head) * shape_.dim + d]);
    const HostTensor* qk = handed_over("qk");
    for (size_t r = 0; qk && r < operands.diagonal.size(); ++r)
      operands.diagonal[r] = qk->values[(place.tile.first_row + r) * shape_.heads + head];
  }

 private:
  const HostTensor* handed_over(const std::string& name) const {
    if (!forward_) return nullptr;
    auto found = forward_->find(name);
    return found == forward_->end() ? nullptr : &found->second;
  }

  /// `values` holds value * 2^(-anchor_sign * anchor).
  void matrix(const std::string& name, int64_t stored_exponent, int anchor_sign, const Tile& tile, int64_t head,
              const ChunkOperands& operands, std::vector<double>& values) const {
    const FloatFormat& bf16 = float_format("bf16");
    const HostTensor* stored = options_.handover == "raw" ? handed_over(name) : nullptr;
    for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
      const int64_t r = i / shape_.dim, d = i % shape_.dim;
      // A hand-over without these outputs leaves their storage to the consumer, which anchors them.
      const double shift =
          options_.handover == "raw" ? std::exp2(anchor_sign * operands.anchor[d] + stored_exponent) : 1.0;
      const int64_t at = ((tile.first_row + r) * shape_.heads + head) * shape_.dim + d;
      values[i] = (stored ? stored->values[at] : round_to(values[i] * shift, bf16)) / shift;
    }
  }

  const PreambleOptions& options_;
  const Shape& shape_;
  const Tensors* forward_;
};

/// Writes one chunk's cotangents in the form that the spec's options ask for.
class HandOver {
 public:
  HandOver(const PreambleOptions& options, const Shape& shape) : options_(options), shape_(shape) {
    const std::string& form = options.handover;
    if (form == "raw") names_ = {"dq_d", "dk_d", "dk_i", "dk_r"};
    if (form == "premult") names_ = {"dq_p", "dk_p", "dk_m"};
    if (form == "premult4") names_ = {"dq_p", "dk_p", "dk_mi", "dk_mr"};
    if (form == "fused") names_ = {"dq_n", "dk_n", "dg_c"};
    add_rows(names_);
    add_rows({"dv_out"});
    add("dbeta", {shape.batch, shape.tokens(), shape.heads});
    if (options.diagonal) add("dqk", {shape.batch, shape.tokens(), shape.heads});
    if (form != "fused") add("dg_T", {shape.capacity(), shape.heads, shape.dim});
  }

  void write(const PlacedTile& place, int64_t head, const PreambleChunk& chunk, const ChunkOperands& operands,
             const ChunkCotangents& cotangents) {
    const int64_t dim = shape_.dim;
    std::vector<double*> forms;
    for (const std::string& name : names_) forms.push_back(result_[name].values.data());
    double* dv_out = result_["dv_out"].values.data();
    for (int64_t d = 0; d < dim; ++d) {
      double total = cotangents.decay_exponent[d];
      if (options_.pure) total *= ln2;
      for (int64_t r = 0; r < chunk.rows && !options_.pure; ++r)
        total += operands.k_r[r * dim + d] * cotangents.k_r[r * dim + d];
      for (int64_t r = 0; r < chunk.rows; ++r) {
        const int64_t at = ((place.tile.first_row + r) * shape_.heads + head) * dim + d;
        const std::array<double, 4> values = element(r * dim + d, d, chunk, operands, cotangents);
        for (size_t form = 0; form < forms.size(); ++form) forms[form][at] = values[form];
        if (options_.handover == "fused" && r == chunk.rows - 1) forms[2][at] += total;
        dv_out[at] = cotangents.v[r * dim + d];
      }
      if (options_.handover != "fused") result_["dg_T"].values[(place.number * shape_.heads + head) * dim + d] = total;
    }
    for (int64_t r = 0; r < chunk.rows; ++r) {
      const int64_t at = (place.tile.first_row + r) * shape_.heads + head;
      result_["dbeta"].values[at] = cotangents.beta[r];
      if (options_.diagonal) result_["dqk"].values[at] = cotangents.diagonal[r];
    }
  }

  Tensors take() { return std::move(result_); }

 private:
  void add(const std::string& name, const std::vector<int64_t>& extents) {
    result_[name] = make_tensor(name, "f64", extents);
  }
  void add_rows(const std::vector<std::string>& names) {
    for (const std::string& name : names) add(name, {shape_.batch, shape_.tokens(), shape_.heads, shape_.dim});
  }

  /// The row cotangents of one element, in the order of names_.
  std::array<double, 4> element(int64_t i, int64_t d, const PreambleChunk& chunk, const ChunkOperands& operands,
                                const ChunkCotangents& c) const {
    const double a = operands.anchor[d];
    if (options_.handover == "raw") {
      const double back = std::exp2(-a - options_.anchor);
      return {c.q_d[i] * back, c.k_d[i] * back, c.k_i[i] / back, c.k_r[i]};
    }
    const double rise = std::exp2(chunk.g_c[i] - a), fall = std::exp2(a - chunk.g_c[i]);
    const double dq_n = c.q_d[i] * rise * options_.scale, positive = c.k_d[i] * rise;
    const double negative_i = c.k_i[i] * fall, negative_r = c.k_r[i] * std::exp2(chunk.g_T[d] - chunk.g_c[i]);
    if (options_.handover == "premult") return {dq_n, positive, negative_i + negative_r, 0};
    if (options_.handover == "premult4") return {dq_n, positive, negative_i, negative_r};
    const double dg_c = operands.q_d[i] * c.q_d[i] + operands.k_d[i] * c.k_d[i] - operands.k_i[i] * c.k_i[i] -
                        operands.k_r[i] * c.k_r[i];
    return {dq_n, positive + (negative_i + negative_r), dg_c, 0};
  }

  const PreambleOptions& options_;
  const Shape& shape_;
  std::vector<std::string> names_;
  Tensors result_;
};

class KdaK1Workload : public Workload {
 public:
  std::vector<std::string> regimes() const override { return kda_k1_regimes(); }
  Tensors inputs(const Problem& problem, const std::string& regime, uint64_t seed) const override {
    return kda_k1_inputs(problem, regime, seed);
  }
  bool has_consumer() const override { return true; }

  Tensors upstream(const Problem& problem, const Tensors& inputs, const ConsumerOptions& consumer) const override {
    const PreambleOptions options = preamble_options(problem);
    const Shape& shape = problem.shape;
    HandOver hand_over(options, shape);
    OperandRounding rounding(options, shape, consumer);
    for_each_sequence(
        options, shape, inputs, consumer, consumer.bf16_operands,
        [&](const PlacedTile& place, int64_t head, const PreambleChunk& chunk, ChunkOperands& operands) {
          if (options.diagonal) split_diagonal(options, chunk, operands);
          if (consumer.bf16_operands) rounding.apply(place, head, operands);
        },
        [&](const PlacedTile& place, int64_t head, const PreambleChunk& chunk, const ChunkOperands& operands,
            const ChunkCotangents& cotangents) { hand_over.write(place, head, chunk, operands, cotangents); });
    return hand_over.take();
  }

  Tensors end_to_end(const Problem& problem, const Tensors& inputs, const ConsumerOptions& consumer) const override {
    const PreambleOptions options = preamble_options(problem);
    const Shape& shape = problem.shape;
    Tensors gradients;
    for (const char* name : {"q", "k", "v", "g_raw", "beta_raw", "A_log", "dt_bias"}) {
      std::string gradient = std::string("d") + name;
      gradients[gradient] = make_tensor(gradient, "f64", inputs.at(name).shape);
    }
    for_each_sequence(
        options, shape, inputs, consumer, false, [](const PlacedTile&, int64_t, const PreambleChunk&, ChunkOperands&) {},
        [&](const PlacedTile& place, int64_t head, const PreambleChunk& chunk, const ChunkOperands& operands,
            const ChunkCotangents& cotangents) {
          accumulate_gradients(options, inputs, shape, place.tile, head, chunk, operands, cotangents, gradients);
        });
    return gradients;
  }

  std::optional<DeclaredBound> bound(const Problem& problem, const std::string& regime, const std::string& tensor,
                                     Oracle oracle, const ConsumerOptions& consumer) const override {
    return kda_k1_bound(problem, regime, tensor, oracle, consumer);
  }

 private:
  static void split_diagonal(const PreambleOptions& options, const PreambleChunk& chunk, ChunkOperands& operands) {
    const int64_t dim = chunk.g_T.size();
    for (int64_t r = 0; r < chunk.rows; ++r) {
      double sum = 0;
      for (int64_t i = r * dim; i < (r + 1) * dim; ++i) sum += options.scale * chunk.q_n[i] * chunk.k_n[i];
      operands.diagonal.push_back(sum);
    }
  }

  /// Runs preamble and consumer of every sequence and head: `prepare` may change a chunk's operands, `finish` gets its
  /// cotangents.
  template <class Prepare, class Finish>
  static void for_each_sequence(const PreambleOptions& options, const Shape& shape, const Tensors& inputs,
                                const ConsumerOptions& consumer, bool round_products, Prepare prepare, Finish finish) {
    shape.validate();
    const HostTensor output_cotangent = kda_k1_output_cotangent(shape, consumer);
    for (const std::vector<PlacedTile>& places : tiles_by_sequence(shape))
      for (int64_t head = 0; head < shape.heads; ++head) {
        std::vector<PreambleChunk> chunks;
        std::vector<ChunkOperands> operands;
        for (const PlacedTile& place : places) {
          chunks.push_back(run_preamble(options, inputs, shape, place.tile, head));
          operands.push_back(exact_operands(options, chunks.back()));
          set_output_cotangent(output_cotangent, shape, place.tile, head, operands.back());
          prepare(place, head, chunks.back(), operands.back());
        }
        std::vector<ChunkCotangents> cotangents;
        run_kda_k2(operands, shape.dim, round_products, cotangents);
        for (size_t n = 0; n < places.size(); ++n) finish(places[n], head, chunks[n], operands[n], cotangents[n]);
      }
  }
};

}  // namespace

const Workload& kda_k1_workload() {
  static const KdaK1Workload workload;
  return workload;
}

}  // namespace kdagen
