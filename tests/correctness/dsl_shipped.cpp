// SPDX-License-Identifier: Apache-2.0
// The shipped specs against the formulas they stand for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/common/spec_graph.h"
#include "tools/spec_source.h"

using kdagen::graph_bytes;
using kdagen::test::Graph;

namespace {
bool is_shipped(const std::string& name) {
  const auto infos = kdagen::shipped_specs();
  return std::any_of(infos.begin(), infos.end(), [&](const kdagen::SpecInfo& info) { return info.name == name; });
}

Graph shipped(const std::string& name, const std::map<std::string, std::string>& options = {}) {
  return Graph(graph_bytes(name, options));
}
}  // namespace

// A spec can be taken out of the folder without anything else to change.
#define NEEDS(name) \
  if (!is_shipped(name)) GTEST_SKIP() << "specs/" name ".cpp is not there"

TEST(ShippedSpecs, AreListedByName) {
  std::vector<std::string> names;
  for (const kdagen::SpecInfo& info : kdagen::shipped_specs()) {
    names.push_back(info.name);
    EXPECT_EQ(info.file, "specs/" + info.name + ".cpp");
    EXPECT_FALSE(info.summary.empty());
    EXPECT_EQ(info.graph, graph_bytes(info.name, {}));
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(ShippedSpecs, Rmsnorm) {
  NEEDS("rmsnorm");
  const Graph g = shipped("rmsnorm");
  EXPECT_EQ(g.json["schema"], 1);
  EXPECT_EQ(g.json["axes"].dump(),
            R"([{"name":"t","role":"rows"},{"name":"h","role":"head"},{"name":"d","role":"feature"}])");
  EXPECT_EQ(g.formula("inv"), R"(rsqrt(((sum[["d"]]((x * x)) / 128) + eps)))");
  EXPECT_EQ(g.formula("y"), "((x * inv) * weight)");
  EXPECT_EQ(g.node("x")["dtype"], "bf16");
  EXPECT_EQ(g.node("weight")["dtype"], "f32");
  EXPECT_EQ(g.node("weight")["axes"].dump(), R"(["d"])");
  EXPECT_EQ(g.node("inv")["axes"].dump(), R"(["t","h"])");
  EXPECT_EQ(g.option("eps")["default"], 1e-6);
}

TEST(ShippedSpecs, L2norm) {
  NEEDS("l2norm");
  EXPECT_EQ(shipped("l2norm").formula("y"), R"((x * rsqrt((sum[["d"]]((x * x)) + eps))))");
}

TEST(ShippedSpecs, KdaK1Tensors) {
  NEEDS("kda_k1");
  const Graph g = shipped("kda_k1");
  EXPECT_EQ(g.names_of("input"), "q k g_raw v beta_raw");
  EXPECT_EQ(g.names_of("param"), "A_log dt_bias");
  EXPECT_EQ(g.output_names(), "q_d k_d k_i k_r g_T v_out beta");
  EXPECT_EQ(g.node("beta_raw")["axes"].dump(), R"(["t","h"])");
  EXPECT_EQ(g.node("A_log")["axes"].dump(), R"(["h"])");
  EXPECT_EQ(g.node("dt_bias")["axes"].dump(), R"(["h","d"])");
  EXPECT_EQ(g.node("g_T")["axes"].dump(), R"(["h","d"])");
  EXPECT_EQ(g.output("g_T")["dtype"], "f32");
  EXPECT_EQ(g.output("q_d")["dtype"], "bf16");
}

TEST(ShippedSpecs, KdaK1Formulas) {
  NEEDS("kda_k1");
  const Graph g = shipped("kda_k1");
  EXPECT_EQ(g.formula("q_inv"), R"(rsqrt((sum[["d"]]((q * q)) + eps)))");
  EXPECT_EQ(g.formula("k_n"), "(k * k_inv)");
  EXPECT_EQ(g.formula("z"), "(exp(A_log) * (g_raw + dt_bias))");
  EXPECT_EQ(g.formula("g"), "(ln2^-1*lower_bound * sigmoid(z))");
  EXPECT_EQ(g.formula("g_c"), "cumsum[t](g)");
  EXPECT_EQ(g.formula("e_T"), "exp2(total[t](g))");
  EXPECT_EQ(g.formula("q_d"), "((q_n * exp2(g_c)) * scale)");
  EXPECT_EQ(g.formula("k_d"), "(k_n * exp2(g_c))");
  EXPECT_EQ(g.formula("k_i"), "(k_n * exp2(neg(g_c)))");
  EXPECT_EQ(g.formula("k_r"), "(k_n * exp2((detach(total[t](g)) - g_c)))");
  EXPECT_EQ(g.formula("beta"), "sigmoid(beta_raw)");
  EXPECT_EQ(g.formula("v_out"), "v");
  EXPECT_EQ(g.unit("g_T"), "ln2");
  EXPECT_EQ(g.unit("q_d"), "");
}

TEST(ShippedSpecs, KdaK1PureGate) {
  NEEDS("kda_k1");
  const Graph g = shipped("kda_k1", {{"gt", "pure"}});
  EXPECT_EQ(g.formula("k_r"), "(k_n * exp2((total[t](g) - g_c)))");
  EXPECT_EQ(g.unit("g_T"), "1");
}

TEST(ShippedSpecs, KdaK1HandOverForms) {
  NEEDS("kda_k1");
  const Graph premult = shipped("kda_k1", {{"handover", "premult"}});
  EXPECT_EQ(premult.output_names(), "q_p k_p k_m g_T v_out beta");
  EXPECT_EQ(premult.formula("q_p"), "(q_n * exp2((g_c - detach(g_c))))");
  EXPECT_EQ(premult.formula("k_m"), "(k_n * exp2((neg(g_c) - detach(neg(g_c)))))");
  EXPECT_EQ(premult.unit("g_T"), "ln2");

  const Graph premult4 = shipped("kda_k1", {{"handover", "premult4"}});
  EXPECT_EQ(premult4.output_names(), "q_p k_p k_mi k_mr g_T v_out beta");
  EXPECT_EQ(premult4.formula("k_mr"),
            "(k_n * exp2(((detach(total[t](g)) - g_c) - detach((detach(total[t](g)) - g_c)))))");
  EXPECT_EQ(shipped("kda_k1", {{"handover", "premult4"}, {"gt", "pure"}}).formula("k_mr"),
            "(k_n * exp2(((total[t](g) - g_c) - detach((total[t](g) - g_c)))))");

  const Graph fused = shipped("kda_k1", {{"handover", "fused"}});
  EXPECT_EQ(fused.output_names(), "q_n k_n g_c v_out beta");
  EXPECT_EQ(fused.unit("g_c"), "ln2");
  EXPECT_EQ(fused.output("g_c")["dtype"], "f32");

  const Graph diag = shipped("kda_k1", {{"diag", "1"}});
  EXPECT_EQ(diag.formula("qk"), R"(sum[["d"]](((scale * q_n) * k_n)))");
}

TEST(ShippedSpecs, KdaK1Anchors) {
  NEEDS("kda_k1");
  const Graph g = shipped("kda_k1", {{"anchor", "static"}});
  for (const char* name : {"q_d", "k_d", "k_i"}) EXPECT_EQ(g.output(name)["anchor"], "static") << name;
  EXPECT_FALSE(g.output("k_r").contains("anchor"));
  EXPECT_FALSE(shipped("kda_k1").output("q_d").contains("anchor"));
}

TEST(ShippedSpecs, KdaK1ScaleFollowsTheDim) {
  NEEDS("kda_k1");
  EXPECT_EQ(shipped("kda_k1", {{"dim", "64"}}).option("scale")["value"], 0.125);
  EXPECT_DOUBLE_EQ(shipped("kda_k1").option("scale")["value"].get<double>(), 1 / std::sqrt(128.0));
  EXPECT_EQ(shipped("kda_k1", {{"dim", "64"}, {"scale", "0.5"}}).option("scale")["value"], 0.5);
}

TEST(ShippedSpecs, Gla) {
  NEEDS("gla");
  const Graph g = shipped("gla");
  EXPECT_EQ(g.formula("g"), "(neg(softplus(neg(g_raw))) * gate_divisor^-1*ln2^-1)");
  EXPECT_EQ(g.formula("q_d"), "((q * exp2(g_c)) * scale)");
  EXPECT_EQ(g.formula("k_r"), "(k * exp2((total[t](g) - g_c)))");
  EXPECT_EQ(g.output_names(), "q_d k_r g_c g_T");
}

TEST(ShippedSpecs, Gdn) {
  NEEDS("gdn");
  const Graph g = shipped("gdn");
  EXPECT_EQ(g.formula("g"), "((neg(exp(A_log)) * ln2^-1) * softplus((a_raw + dt_bias)))");
  EXPECT_EQ(g.formula("k_n"), R"((k * rsqrt((sum[["d"]]((k * k)) + eps))))");
  EXPECT_EQ(g.node("g_c")["axes"].dump(), R"(["t","h"])");
  EXPECT_EQ(g.node("g_T")["axes"].dump(), R"(["h"])");
  EXPECT_EQ(g.output_names(), "q_n k_n g_c g_T beta");
}
