// SPDX-License-Identifier: Apache-2.0
// Every hand-over form, read back by the formulas of the preamble's backward, gives the exact gradient of the whole
// loss; and with bf16 operands the accuracy promised of the full pipeline is there to be had.
#include <cmath>

#include <gtest/gtest.h>
#include <kdagen/error.h>

#include "specs/workloads/kda_k1.h"
#include "specs/workloads/kda_preamble.h"

namespace kdagen {
namespace {

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(error / norm);
}

Problem ragged_problem() {
  Problem problem;
  problem.spec = "kda_k1";
  problem.shape.packed = true;
  problem.shape.seqlens = {19, 0, 1, 37};
  problem.shape.dead_rows = 3;
  problem.shape.heads = 2;
  problem.shape.dim = 12;
  return problem;
}

using Form = std::map<std::string, std::string>;

class HandOver : public testing::TestWithParam<Form> {};

TEST_P(HandOver, GivesTheExactGradient) {
  const Workload& workload = find_workload("kda_k1");
  for (int64_t chunk : {16, 64}) {
    Problem problem = ragged_problem();
    problem.shape.chunk = chunk;
    problem.options.values = GetParam();
    Tensors inputs = workload.inputs(problem, "mixed", 5);
    ConsumerOptions consumer;
    consumer.do_scale = 1e-6;
    Tensors upstream = workload.upstream(problem, inputs, consumer);
    Tensors expected = workload.end_to_end(problem, inputs, consumer);
    Tensors actual = *workload.attainable(problem, inputs, upstream, consumer);
    for (const char* name : {"dq", "dk", "dg_raw", "dv", "dbeta_raw", "dA_log", "ddt_bias"})
      EXPECT_TRUE(relative_difference(actual[name].values, expected[name].values) <= 1e-11)
          << name << " chunk " << chunk << ": " << relative_difference(actual[name].values, expected[name].values);
  }
}

std::vector<Form> all_forms() {
  std::vector<Form> forms;
  for (const char* diagonal : {"0", "1"}) {
    for (const char* handover : {"raw", "premult", "premult4", "fused"})
      forms.push_back({{"handover", handover}, {"diag", diagonal}});
    for (const char* handover : {"raw", "premult4"})
      forms.push_back({{"handover", handover}, {"diag", diagonal}, {"gt", "pure"}});
    forms.push_back({{"handover", "raw"}, {"diag", diagonal}, {"anchor", "static"}});
  }
  return forms;
}
INSTANTIATE_TEST_SUITE_P(Forms, HandOver, testing::ValuesIn(all_forms()));

TEST(HandOver, RefusesWhatTheSpecDoesNotHave) {
  Problem problem = ragged_problem();
  problem.options.values = {{"handover", "fused"}, {"gt", "pure"}};
  EXPECT_THROW(preamble_options(problem), UsageError);
  problem.options.values = {{"handover", "half"}};
  EXPECT_THROW(preamble_options(problem), UsageError);
  EXPECT_THROW(kda_k1_inputs(problem, "calm", 1), UsageError);
}

class RoundedOperands : public testing::TestWithParam<std::string> {};

TEST_P(RoundedOperands, PipelineBoundsAreAttainableOnlyWithTheConsumersNumbers) {
  const Workload& workload = find_workload("kda_k1");
  Problem problem;
  problem.spec = "kda_k1";
  problem.shape.heads = 8;
  problem.options.values = {{"anchor", "static"}};
  Tensors inputs = workload.inputs(problem, GetParam(), 9);
  ConsumerOptions consumer;
  consumer.bf16_operands = true;
  consumer.do_scale = 1e-9;
  Tensors upstream = workload.upstream(problem, inputs, consumer);
  Tensors exact = workload.end_to_end(problem, inputs, consumer);
  Tensors same = *workload.attainable(problem, inputs, upstream, consumer);
  ConsumerOptions exact_operands = consumer;
  exact_operands.bf16_operands = false;
  Tensors factored = *workload.attainable(problem, inputs, upstream, exact_operands);
  for (const char* name : {"dq", "dk", "dg_raw", "dbeta_raw"}) {
    double error = relative_difference(same[name].values, exact[name].values);
    RecordProperty(name, std::to_string(error));
    std::optional<DeclaredBound> bound = workload.bound(problem, GetParam(), name, Oracle::end_to_end, consumer);
    // With init gates the head of the smallest rate is most of dg_raw: pooling does not average its draw away.
    double factor = GetParam() == "init" && std::string(name) == "dg_raw" ? 1.5 : 1;
    EXPECT_TRUE(error <= factor * *bound->rel_l2) << name << ' ' << error;
    EXPECT_TRUE(error >= 3e-4) << name << " shows no rounding: " << error;
  }
  double hand_style = relative_difference(factored["dg_raw"].values, exact["dg_raw"].values);
  EXPECT_TRUE(hand_style >= 1.1 * relative_difference(same["dg_raw"].values, exact["dg_raw"].values)) << hand_style;
}
INSTANTIATE_TEST_SUITE_P(Regimes, RoundedOperands, testing::ValuesIn(kda_k1_regimes()));

TEST(RoundedOperands, UsesTheNumbersHandedOver) {
  const Workload& workload = find_workload("kda_k1");
  Problem problem = ragged_problem();
  Tensors inputs = workload.inputs(problem, "typical", 2);
  ConsumerOptions consumer;
  consumer.bf16_operands = true;
  Tensors own = workload.upstream(problem, inputs, consumer);

  const PreambleOptions options = preamble_options(problem);
  Tensors forward;
  for (const char* name : {"q_d", "k_d", "k_i", "k_r"}) forward[name] = make_tensor(name, "bf16", inputs["q"].shape);
  for (const Tile& tile : problem.shape.tiles())
    for (int64_t head = 0; head < problem.shape.heads; ++head) {
      PreambleChunk c = run_preamble(options, inputs, problem.shape, tile, head);
      for (int64_t i = 0; i < c.rows * problem.shape.dim; ++i) {
        const int64_t d = i % problem.shape.dim, r = i / problem.shape.dim;
        const int64_t at = ((tile.first_row + r) * problem.shape.heads + head) * problem.shape.dim + d;
        forward["q_d"].values[at] = round_to(c.q_n[i] * std::exp2(c.g_c[i]) * options.scale, "bf16");
        forward["k_d"].values[at] = round_to(c.k_n[i] * std::exp2(c.g_c[i]), "bf16");
        forward["k_i"].values[at] = round_to(c.k_n[i] * std::exp2(-c.g_c[i]), "bf16");
        forward["k_r"].values[at] = round_to(c.k_n[i] * std::exp2(c.g_T[d] - c.g_c[i]), "bf16");
      }
    }
  consumer.forward = &forward;
  Tensors given = workload.upstream(problem, inputs, consumer);
  for (const auto& [name, tensor] : own)
    EXPECT_TRUE(relative_difference(given[name].values, tensor.values) <= 1e-12) << name;

  for (double& value : forward["k_i"].values) value = round_to(1.25 * value, "bf16");
  Tensors changed = workload.upstream(problem, inputs, consumer);
  EXPECT_TRUE(relative_difference(changed["dq_d"].values, own["dq_d"].values) > 0.05);
}

}  // namespace
}  // namespace kdagen
