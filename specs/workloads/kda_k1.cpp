// SPDX-License-Identifier: Apache-2.0
// The workload of kda_k1: its consumer is the chunk recurrence of kda_k2.h.
#include "specs/workloads/kda_k1.h"

#include <cmath>

#include "specs/workloads/kda_handover.h"
#include "specs/workloads/kda_k2.h"
#include "specs/workloads/kda_preamble.h"

namespace kdagen {
namespace {

std::vector<std::vector<PlacedTile>> tiles_by_sequence(const Shape& shape) {
  std::vector<std::vector<PlacedTile>> result(shape.sequences());
  int64_t number = 0;
  for (const Tile& tile : shape.tiles()) result[tile.sequence].push_back({tile, number++, 0});
  return result;
}

void set_output_cotangent(const HostTensor& output_cotangent, const Shape& shape, const Tile& tile, int64_t head,
                          ChunkOperands& operands) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const double* row = &output_cotangent.values[((tile.first_row + r) * shape.heads + head) * shape.dim];
    operands.output_cotangent.insert(operands.output_cotangent.end(), row, row + shape.dim);
  }
}

class KdaK1Workload : public Workload {
 public:
  std::vector<std::string> regimes() const override { return kda_k1_regimes(); }
  Tensors inputs(const Problem& problem, const std::string& regime, uint64_t seed) const override {
    return kda_k1_inputs(problem, regime, seed);
  }
  std::vector<std::string> directions() const override { return {"q", "k"}; }
  bool has_consumer() const override { return true; }

  Tensors upstream(const Problem& problem, const Tensors& inputs, const ConsumerOptions& consumer) const override {
    const PreambleOptions options = preamble_options(problem);
    HandOver hand_over(options, problem.shape);
    for_each_chunk(problem, options, inputs, consumer, true, [&](const PlacedTile& place, const ConsumedChunk& c) {
      hand_over.write(place, c.preamble, c.operands, c.cotangents);
    });
    return hand_over.take();
  }

  Tensors end_to_end(const Problem& problem, const Tensors& inputs, const ConsumerOptions& consumer) const override {
    const PreambleOptions options = preamble_options(problem);
    Tensors gradients = zero_gradients(inputs);
    for_each_chunk(problem, options, inputs, consumer, false, [&](const PlacedTile& place, const ConsumedChunk& c) {
      ChunkGradient gradient = chunk_gradient(options, c.preamble, c.operands, c.cotangents);
      accumulate_gradients(options, inputs, problem.shape, place.tile, place.head, c.preamble, gradient, gradients);
    });
    return gradients;
  }

  std::optional<Tensors> attainable(const Problem& problem, const Tensors& inputs, const Tensors& upstream,
                                    const ConsumerOptions& consumer) const override {
    const PreambleOptions options = preamble_options(problem);
    const Shape& shape = problem.shape;
    const OperandRounding rounding(options, shape, consumer);
    Tensors gradients = zero_gradients(inputs);
    for (const auto& places : tiles_by_sequence(shape))
      for (PlacedTile place : places)
        for (place.head = 0; place.head < shape.heads; ++place.head) {
          PreambleChunk chunk = run_preamble(options, inputs, shape, place.tile, place.head);
          take_stored_anchors(options, consumer.anchors, shape, place.number, place.head, chunk);
          ChunkOperands operands = exact_operands(options, chunk);
          if (consumer.bf16_operands) rounding.apply(place, chunk, operands);
          ChunkGradient gradient = handed_gradient(options, shape, place, chunk, operands, upstream);
          accumulate_gradients(options, inputs, shape, place.tile, place.head, chunk, gradient, gradients);
        }
    return gradients;
  }

  // ddt_bias sums dg_raw over the tokens, dA_log sums dg_raw * (g_raw + dt_bias) over tokens and features. The kernel's
  // errors are those of sums over the rows of a chunk: a whole column of a chunk shares them and is one term.
  std::map<std::string, ParameterTerms> parameter_terms(const Problem& problem, const Tensors& inputs,
                                                        const Tensors& gradients, Oracle oracle) const override {
    const Shape& shape = problem.shape;
    const int64_t columns = shape.heads * shape.dim;
    const auto &dg_raw = gradients.at("dg_raw").values, &g_raw = inputs.at("g_raw").values;
    const auto& dt_bias = inputs.at("dt_bias").values;
    std::vector<double> bias(columns, 0.0), rate(shape.heads, 0.0);
    for (const Tile& tile : shape.tiles())
      for (int64_t column = 0; column < columns; ++column) {
        double bias_term = 0, rate_term = 0;
        for (int64_t r = 0; r < tile.rows; ++r) {
          const int64_t at = (tile.first_row + r) * columns + column;
          const double term = std::fabs(dg_raw[at]), weighted = term * std::fabs(g_raw[at] + dt_bias[column]);
          const bool alone = oracle == Oracle::end_to_end || r == 0;
          bias_term = alone ? std::hypot(bias_term, term) : bias_term + term;
          rate_term = alone ? std::hypot(rate_term, weighted) : rate_term + weighted;
        }
        bias[column] = std::hypot(bias[column], bias_term);
        rate[column / shape.dim] = std::hypot(rate[column / shape.dim], rate_term);
      }
    return {{"ddt_bias", {"dg_raw", bias}}, {"dA_log", {"dg_raw", rate}}};
  }

  std::vector<std::map<std::string, std::string>> hand_over_forms(const Problem& problem) const override {
    const std::string anchor =
        preamble_options(problem).static_anchor_serves(problem.shape.chunk) ? "static" : "subchunk";
    std::vector<std::map<std::string, std::string>> forms;
    for (const std::string handover : {"raw", "premult"})
      for (const std::string diagonal : {"0", "1"})
        for (const std::string storage : {"f32", "fp16row", "bf16"}) {
          if (handover == "raw" && storage == "fp16row") continue;
          std::map<std::string, std::string> form{
              {"handover", handover}, {"gt", "k2"}, {"diag", diagonal}, {"upstream", storage}};
          form["anchor"] = handover == "raw" ? anchor : "none";
          // What is no row of features costs next to nothing, and much if it is rounded.
          form["upstream.g_T"] = form["upstream.beta"] = "f32";
          if (diagonal == "1") form["upstream.qk"] = "f32";
          forms.push_back(form);
        }
    for (const auto& [storage, exponent] :
         {std::pair("f32", "f32"), std::pair("bf16", "f32"), std::pair("bf16", "bf16")})
      forms.push_back({{"handover", "fused"},
                       {"gt", "k2"},
                       {"diag", "0"},
                       {"anchor", "none"},
                       {"upstream", storage},
                       {"upstream.g_c", exponent},
                       {"upstream.beta", "f32"}});
    return forms;
  }

  std::optional<DeclaredBound> bound(const Problem& problem, const std::string& regime, const std::string& tensor,
                                     Oracle oracle, const ConsumerOptions& consumer) const override {
    return kda_k1_bound(problem, regime, tensor, oracle, consumer);
  }

 private:
  /// One chunk after the consumer's backward.
  struct ConsumedChunk {
    PreambleChunk preamble;
    ChunkOperands operands;
    ChunkCotangents cotangents;
  };

  static void split_diagonal(const PreambleOptions& options, const PreambleChunk& chunk, ChunkOperands& operands) {
    const int64_t dim = chunk.g_T.size();
    for (int64_t r = 0; r < chunk.rows; ++r) {
      double sum = 0;
      for (int64_t i = r * dim; i < (r + 1) * dim; ++i) sum += options.scale * chunk.q_n[i] * chunk.k_n[i];
      operands.diagonal.push_back(sum);
    }
  }

  /// Runs preamble and consumer of every sequence and head. `handed_over`: with the diagonal split and the operands
  /// rounded as the options ask; otherwise exact.
  template <class Visit>
  static void for_each_chunk(const Problem& problem, const PreambleOptions& options, const Tensors& inputs,
                             const ConsumerOptions& consumer, bool handed_over, Visit visit) {
    const Shape& shape = problem.shape;
    shape.validate();
    const HostTensor output_cotangent = kda_k1_output_cotangent(shape, consumer);
    const OperandRounding rounding(options, shape, consumer);
    const bool rounded = handed_over && consumer.bf16_operands;
    for (auto& places : tiles_by_sequence(shape))
      for (int64_t head = 0; head < shape.heads; ++head) {
        std::vector<PreambleChunk> chunks;
        std::vector<ChunkOperands> operands;
        for (PlacedTile& place : places) {
          place.head = head;
          chunks.push_back(run_preamble(options, inputs, shape, place.tile, head));
          take_stored_anchors(options, consumer.anchors, shape, place.number, head, chunks.back());
          operands.push_back(exact_operands(options, chunks.back()));
          set_output_cotangent(output_cotangent, shape, place.tile, head, operands.back());
          if (handed_over && options.diagonal) split_diagonal(options, chunks.back(), operands.back());
          if (rounded) rounding.apply(place, chunks.back(), operands.back());
        }
        std::vector<ChunkCotangents> cotangents;
        run_kda_k2(operands, shape.dim, rounded, cotangents);
        for (size_t n = 0; n < places.size(); ++n)
          visit(places[n], ConsumedChunk{std::move(chunks[n]), std::move(operands[n]), std::move(cotangents[n])});
      }
  }
};

}  // namespace

const Workload& kda_k1_workload() {
  static const KdaK1Workload workload;
  return workload;
}

}  // namespace kdagen
