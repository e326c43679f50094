// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>
#include <kdagen/error.h>

#include "specs/workloads/workload.h"
#ifdef KDAGEN_HAS_KDA_K1
#include "specs/workloads/kda_k1.h"
#include "specs/workloads/kda_preamble.h"
#endif

namespace kdagen {
namespace {

#ifdef KDAGEN_HAS_KDA_K1
double mean_gate_nats(const std::string& regime) {
  Problem problem;
  problem.spec = "kda_k1";
  problem.shape.heads = 32;
  problem.shape.seqlens = {64};
  Tensors inputs = kda_k1_inputs(problem, regime, 1);
  PreambleOptions options = preamble_options(problem);
  double sum = 0;
  int64_t count = 0;
  for (const Tile& tile : problem.shape.tiles())
    for (int64_t head = 0; head < problem.shape.heads; ++head)
      for (double g_T : run_preamble(options, inputs, problem.shape, tile, head).g_T) {
        sum += g_T * std::log(2.0) / tile.rows;
        ++count;
      }
  return sum / count;
}

TEST(Regimes, MeanGates) {
  EXPECT_NEAR(mean_gate_nats("typical"), -0.36, 0.03);
  EXPECT_NEAR(mean_gate_nats("strong"), -4.985, 0.01);
  EXPECT_NEAR(mean_gate_nats("mixed"), -2.5, 0.25);
  EXPECT_NEAR(mean_gate_nats("init"), -0.006, 0.006);
  EXPECT_NEAR(mean_gate_nats("trained"), -2.4, 0.3);
  EXPECT_NEAR(mean_gate_nats("bound"), -5, 2e-8);
}

TEST(Regimes, ValuesAreStoredExactlyAndRepeatable) {
  Problem problem;
  problem.spec = "kda_k1";
  problem.inputs = {{"q", "fp16", {AxisRole::rows, AxisRole::head, AxisRole::feature}}};
  for (const std::string& regime : kda_k1_regimes()) {
    Tensors inputs = kda_k1_inputs(problem, regime, 4), again = kda_k1_inputs(problem, regime, 4);
    Tensors other = kda_k1_inputs(problem, regime, 5);
    EXPECT_EQ(inputs["q"].dtype, "fp16");
    EXPECT_EQ(inputs["k"].dtype, "bf16");
    EXPECT_EQ(inputs["dt_bias"].shape, (std::vector<int64_t>{4, 128}));
    EXPECT_EQ(inputs["beta_raw"].shape, (std::vector<int64_t>{1, 64, 4}));
    for (const auto& [name, tensor] : inputs) {
      EXPECT_EQ(tensor.values, stored_as(tensor, tensor.dtype).values) << name;
      EXPECT_EQ(tensor.values, again[name].values) << name;
    }
    EXPECT_NE(inputs["q"].values, other["q"].values);
  }
  Tensors bound = kda_k1_inputs(problem, "bound", 1);
  for (size_t i = 0; i < bound["g_raw"].values.size(); ++i)
    EXPECT_EQ(bound["g_raw"].values[i] + bound["dt_bias"].values[i % bound["dt_bias"].values.size()], 20.0);
}

TEST(ParameterTerms, AreTheTermsOfTheSums) {
  Problem problem;
  problem.spec = "kda_k1";
  problem.shape.heads = 1;
  problem.shape.dim = 2;
  problem.shape.seqlens = {2};
  Tensors inputs, gradients;
  inputs["g_raw"] = {"g_raw", "bf16", {1, 2, 1, 2}, {1, 2, 3, 4}};
  inputs["dt_bias"] = {"dt_bias", "f32", {1, 2}, {0.5, -1}};
  gradients["dg_raw"] = {"dg_raw", "f64", {1, 2, 1, 2}, {3, 1, 4, 2}};
  auto terms = find_workload("kda_k1").parameter_terms(problem, inputs, gradients, Oracle::end_to_end);
  EXPECT_DOUBLE_EQ(terms["ddt_bias"].root_sum_square[0], 5);
  EXPECT_DOUBLE_EQ(terms["ddt_bias"].root_sum_square[1], std::sqrt(5.0));
  EXPECT_DOUBLE_EQ(terms["dA_log"].root_sum_square[0], std::sqrt(4.5 * 4.5 + 1 + 14.0 * 14 + 36));
  EXPECT_EQ(terms["dA_log"].summed, "dg_raw");
  // The kernel's errors: the two rows of a column are one term.
  terms = find_workload("kda_k1").parameter_terms(problem, inputs, gradients, Oracle::kernel);
  EXPECT_DOUBLE_EQ(terms["ddt_bias"].root_sum_square[0], 7);
  EXPECT_DOUBLE_EQ(terms["dA_log"].root_sum_square[0], std::hypot(4.5 + 14, 1 + 6));
  // ... but not those of two chunks.
  problem.shape.chunk = 1;
  terms = find_workload("kda_k1").parameter_terms(problem, inputs, gradients, Oracle::kernel);
  EXPECT_DOUBLE_EQ(terms["ddt_bias"].root_sum_square[0], 5);
}
#endif

Problem generic_problem() {
  Problem problem;
  problem.spec = "some_norm";
  problem.shape.packed = true;
  problem.shape.seqlens = {30, 10};
  problem.shape.dead_rows = 5;
  problem.shape.dim = 32;
  Declaration x{"x", "bf16", {AxisRole::rows, AxisRole::head, AxisRole::feature}};
  Declaration gate{"gate", "bf16", {AxisRole::rows, AxisRole::head}};
  gate.lower = -0.3;
  gate.upper = 0;
  Declaration weight{"weight", "f32", {AxisRole::feature}, true};
  weight.lower = 0;
  Declaration total{"total", "f32", {AxisRole::chunk, AxisRole::head}};
  problem.inputs = {x, gate, weight};
  problem.outputs = {x, total};
  return problem;
}

TEST(Generic, InputsKeepToTheirBounds) {
  Problem problem = generic_problem();
  Tensors inputs = find_workload("some_norm").inputs(problem, "normal", 1);
  for (double value : inputs["gate"].values) EXPECT_TRUE(value >= -0.3 && value <= 0) << value;
  for (double value : inputs["weight"].values) EXPECT_TRUE(value >= 0) << value;
  double sum = 0, square = 0;
  for (double value : inputs["x"].values) sum += value, square += value * value;
  const double n = inputs["x"].values.size();
  EXPECT_NEAR(sum / n, 0, 0.05);
  EXPECT_NEAR(square / n, 1, 0.05);
  EXPECT_THROW(find_workload("some_norm").inputs(problem, "typical", 1), UsageError);
}

TEST(Generic, CotangentsShrinkWithTheExponentAndVanishOutsideSequences) {
  Problem problem = generic_problem();
  Tensors exponents;
  exponents["x"] = make_tensor("x", "f64", dense_shape(problem.outputs[0], problem.shape));
  for (size_t i = 0; i < exponents["x"].values.size(); ++i) exponents["x"].values[i] = i % 100;
  ConsumerOptions consumer;
  Tensors plain = find_workload("some_norm").upstream(problem, {}, consumer);
  consumer.exponents = &exponents;
  Tensors scaled = find_workload("some_norm").upstream(problem, {}, consumer);
  const std::vector<double>&dx = scaled["dx"].values, &noise = plain["dx"].values;
  const size_t live = 40 * 4 * 32;
  for (size_t i = 0; i < dx.size(); ++i) {
    EXPECT_EQ(dx[i], std::ldexp(noise[i], -static_cast<int>(i % 100)));
    EXPECT_EQ(i >= live, noise[i] == 0) << i;
  }
  const std::vector<double>& dtotal = plain["dtotal"].values;
  ASSERT_EQ(dtotal.size(), size_t(5 * 4));  // ceil(45/16) + 2 slots of 4 heads
  for (size_t i = 0; i < dtotal.size(); ++i) EXPECT_EQ(i >= 3 * 4, dtotal[i] == 0) << i;
  EXPECT_FALSE(find_workload("some_norm").has_consumer());
  EXPECT_THROW(find_workload("some_norm").end_to_end(problem, {}, consumer), UsageError);
}

}  // namespace
}  // namespace kdagen
