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
          ChunkOperands operands = exact_operands(options, chunk);
          if (consumer.bf16_operands) rounding.apply(place, operands);
          ChunkGradient gradient = handed_gradient(options, shape, place, chunk, operands, upstream);
          accumulate_gradients(options, inputs, shape, place.tile, place.head, chunk, gradient, gradients);
        }
    return gradients;
  }

  // ddt_bias sums dg_raw over the tokens, dA_log sums dg_raw * (g_raw + dt_bias) over tokens and features.
  std::map<std::string, ParameterTerms> parameter_terms(const Problem& problem, const Tensors& inputs,
                                                        const Tensors& gradients) const override {
    const int64_t dim = problem.shape.dim;
    const auto &dg_raw = gradients.at("dg_raw").values, &g_raw = inputs.at("g_raw").values;
    const auto& dt_bias = inputs.at("dt_bias").values;
    std::vector<double> bias(dt_bias.size(), 0.0), rate(problem.shape.heads, 0.0);
    // Rows of no sequence have no gradient, whatever their inputs hold.
    for (size_t i = 0; i < dg_raw.size(); ++i) {
      if (dg_raw[i] == 0) continue;
      const size_t at = i % dt_bias.size();
      const double term = dg_raw[i] * (g_raw[i] + dt_bias[at]);
      bias[at] += dg_raw[i] * dg_raw[i];
      rate[at / dim] += term * term;
    }
    for (double& x : bias) x = std::sqrt(x);
    for (double& x : rate) x = std::sqrt(x);
    return {{"ddt_bias", {"dg_raw", bias}}, {"dA_log", {"dg_raw", rate}}};
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
          operands.push_back(exact_operands(options, chunks.back()));
          set_output_cotangent(output_cotangent, shape, place.tile, head, operands.back());
          if (handed_over && options.diagonal) split_diagonal(options, chunks.back(), operands.back());
          if (rounded) rounding.apply(place, operands.back());
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
