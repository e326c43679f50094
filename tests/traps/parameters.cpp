// SPDX-License-Identifier: Apache-2.0
// Parameters and their gradients: T021, T023-T026 of docs/traps.md.
#include <gtest/gtest.h>

#include "tests/common/kda_reference.h"
#include "tests/common/run_case.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {
const Settings precise{{"dim", "16"}, {"dtype", "f32"}, {"out", "f32"}, {"grads", "f32"}};
}

TEST(Parameters, T021ExponentialsOfParameters) {
  EmulatedProgram program(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), z = x + s.param("dt_bias", {h, d}), A_log = s.param("A_log", {h});
        s.output("soft", -exp(A_log) * softplus(z));
        s.output("bounded", -5.0 * sigmoid(exp(A_log) * z));
      },
      precise);
  constexpr double largest = std::numeric_limits<float>::max();
  const auto expect_near = [&](double value, double reference, const std::string& where) {
    if (std::abs(reference) > largest)
      EXPECT_EQ(value, std::copysign(INFINITY, reference)) << where;
    else
      EXPECT_NEAR(value, reference, 1e-41 + 1e-5 * std::abs(reference)) << where;
  };
  for (const double A_log : {-100, -30, 30, 88})
    for (const double x : {-50.0, 0.0, 1.0, 0.25}) {
      const std::string where = fmt::format("A_log {} x {}", A_log, x);
      Call call(program, {1, 3, 1});
      call.set("A_log", A_log).set("dt_bias", 0).set("x", x).set("dsoft", 1).set("dbounded", 0).forward().backward();
      const double rate = std::exp(A_log), s = stable_sigmoid(rate * x), slope = -5 * s * stable_sigmoid(-rate * x);
      expect_near(call("soft"), -rate * stable_softplus(x), where);
      EXPECT_NEAR(call("bounded"), -5 * s, 1e-6) << where;
      expect_near(call("dx"), -rate * stable_sigmoid(x), where);
      expect_near(call("dA_log"), -3 * 16 * rate * stable_softplus(x), where);
      call.set("dsoft", 0).set("dbounded", 1).backward();
      expect_near(call("dx"), slope * rate, where);
      expect_near(call("ddt_bias"), 3 * slope * rate, where);
      expect_near(call("dA_log"), 3 * 16 * slope * rate * x, where);
    }
}

// A rate beyond a float counts as the largest float, so that what vanishes beside it stays 0 instead of NaN.
TEST(Parameters, T021RatesBeyondAFloat) {
  EmulatedProgram program(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), z = x + s.param("dt_bias", {h, d}), A_log = s.param("A_log", {h});
        Value g = -exp(A_log) * log2e * softplus(z);
        s.output("soft", g);
        s.output("decay", exp2(cumsum(g, t)));
        s.output("bounded", -5.0 * sigmoid(exp(A_log) * z));
      },
      precise);
  constexpr double largest = std::numeric_limits<float>::max();
  for (const double A_log : {88.7, 89.0, 100.0, 3e38})
    for (const double x : {-200.0, -50.0, 0.0, 1.0, -1.0}) {
      const std::string where = fmt::format("A_log {} x {}", A_log, x);
      Call call(program, {1, 3, 1});
      call.set("A_log", A_log).set("dt_bias", 0).set("x", x).set("dsoft", 1).set("ddecay", 1).set("dbounded", 1);
      call.forward().backward();
      const double rate = std::min(std::exp(A_log) / std::numbers::ln2, largest), gate = -rate * stable_softplus(x);
      if (x == -200) {  // softplus is 0 as a float
        EXPECT_EQ(call("soft"), 0) << where;
        EXPECT_EQ(call("decay"), 1) << where;
      } else if (gate < -largest) {
        EXPECT_LE(call("soft"), -0.5 * largest) << where;
      } else {
        EXPECT_NEAR(call("soft"), gate, 1e-5 * std::abs(gate)) << where;
      }
      if (gate < -200) EXPECT_EQ(call("decay"), 0) << where;
      EXPECT_NEAR(call("bounded"), x < 0 ? 0 : x > 0 ? -5 : -2.5, 1e-6) << where;
      for (const char* name : {"dx", "ddt_bias", "dA_log"})
        EXPECT_FALSE(std::isnan(call(name))) << name << " " << where;
    }
  Call nan(program, {1, 3, 1});  // is not taken for a large number
  nan.set("A_log", NAN).set("dt_bias", 0).set("x", -200).forward();
  for (const char* name : {"soft", "decay", "bounded"}) EXPECT_TRUE(std::isnan(nan(name))) << name;
}

TEST(Parameters, T023ScalarOfAMillionElements) {
  EmulatedProgram program([](Spec& s, const Options&, Axis t, Axis h,
                             Axis d) { s.output("y", s.param("a", {}) * s.input("x", {t, h, d})); },
                          {{"dim", "256"}, {"dtype", "f32"}, {"out", "f32"}, {"grads", "f32"}});
  Call call(program, {1, 4000, 1});
  call.set("dy", 1).backward();
  double sum = 0, size = 0;
  for (const double x : values_of(call.tensor("x"))) sum += x, size += std::abs(x);
  EXPECT_NEAR(call("da"), sum, 1e-5 * std::abs(sum) + 1e-9 * size);
  const double first = call("da");
  for (unsigned order = 2; order < 4; ++order) EXPECT_EQ(call.backward(order)("da"), first);
}

#ifdef KDAGEN_HAS_KDA_K1
// lower_bound -4 and a slope of 1/4: with dg_T = -1 in units of ln2 every token adds exactly 1, with -ln2 in units of 1
// as well.
TEST(Parameters, T024SumsAreFloatWhateverIsStored) {
  for (const auto& [gt, dg_T] : {std::pair("k2", -1.0), {"pure", -std::numbers::ln2}}) {
    EmulatedProgram program("kda_k1", {{"dim", "16"}, {"lower_bound", "-4"}, {"gt", gt}});
    Call call(program, {1, 8192, 1});
    for (const char* name : {"dq_d", "dk_d", "dk_i", "dk_r", "dv_out", "dbeta"}) call.set(name, 0);
    call.set("A_log", 0).set("dt_bias", 0.5).set("g_raw", -0.5).set("dg_T", dg_T).backward();
    for (int64_t d = 0; d < 16; ++d) EXPECT_NEAR(call("ddt_bias", 0, 0, d), 8192, 1e-3) << gt;
    EXPECT_EQ(call.tensor("ddt_bias").dtype, runtime::DType::f32);
    EXPECT_EQ(call.tensor("g_raw").dtype, runtime::DType::bf16);
  }
}
#endif

TEST(Parameters, T025TwoReadsInOneElement) {
  for (const char* schedule : {"default", "threads=64", "threads=256,tiles_per_block=4"}) {
    EmulatedProgram program(
        [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
          Value one = s.input("one", {t, h, d}), b0 = s.param("b0", {}), b1 = s.param("b1", {});
          Value half = 0.5 * index(d);
          Value odd = half - 0.5 * index(d) + select(index(d) < 8.0, 0.0, 1.0);
          s.output("y", one * select(odd > 0.5, b0 + b1, b0));
        },
        with(precise, {{"schedule", schedule}}));
    Call call(program, {1, 3125, 1});  // 50,000 elements in either half
    call.set("one", 1).set("dy", 1).backward();
    EXPECT_EQ(call("db0"), 5e4) << schedule;
    EXPECT_EQ(call("db1"), 2.5e4) << schedule;
  }
}

#ifdef KDAGEN_HAS_KDA_K1
// There is one mode, and it is this one.
TEST(Parameters, T026OrdersOfThreadsAndBlocksChangeNoBit) {
  EmulatedProgram program("kda_k1", {});
  Call call(program, {1, 0, 2, {37, 0, 16, 81}});
  call.backward(1);
  const auto first = call.tensors();
  for (unsigned order = 2; order <= 20; ++order) {
    call.backward(order);
    for (const std::string& name : call.outputs(Pass::bwd))
      ASSERT_EQ(call.tensor(name).data, first.at(name).data) << name << " order " << order;
  }
}

// Each process has an empty cache and other addresses, and another order of threads.
TEST(Parameters, T026FreshProcessesGiveTheSameBits) {
  const RunCase one("kda_k1", {"dim=32"}, {1, 0, 2, {37, 0, 16, 81}});
  const TensorFile inputs = one.inputs("bwd");
  runtime::write_safetensors(one.folder() / "in", inputs);
  std::vector<std::string> results;
  for (const char* round : {"a", "b", "c"}) {
    const std::string out = one.folder() / ("out" + std::string(round));
    const Outcome outcome = kdagen::testing::kdagen(
        {"run", "kda_k1", "--set", "dim=32", "--pass", "bwd", "--on", "emulator", "--in", one.folder() / "in", "--out",
         out},
        {{"KDAGEN_CACHE_DIR", one.folder() / round}, {"PADDING", std::string(*round * 40, 'x')}});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    results.push_back(slurp(out));
  }
  EXPECT_GT(results[0].size(), 10000u);
  EXPECT_TRUE(results[1] == results[0] && results[2] == results[0]);
}
#endif
