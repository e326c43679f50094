// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/common/spec_graph.h"

using namespace kdagen;
using kdagen::test::Graph;
using kdagen::test::graph_of;

namespace {
void two_tensors(Spec& s, const Options&, Axis t, Axis h, Axis d) {
  s.output("y", s.input("x", {t, h, d}) + s.input("w", f32, {t, h, d}));
  s.output("z", Value(1.0) + index(t) * s.param("p", {h})).dtype(f32);
}
}  // namespace

TEST(DslOptions, Defaults) {
  const Graph g(graph_of(two_tensors));
  EXPECT_EQ(g.json["chunk"], 16);
  EXPECT_EQ(g.json["dim"], 128);
  EXPECT_EQ(g.node("x")["dtype"], "bf16");
  EXPECT_EQ(g.output("y")["dtype"], "bf16");
  EXPECT_TRUE(g.json["options"].empty());
}

TEST(DslOptions, CommonOnesReachTheGraph) {
  const Graph g(graph_of(two_tensors, {{"chunk", "64"}, {"dim", "96"}, {"dtype", "f32"}, {"out", "fp16"}}));
  EXPECT_EQ(g.json["chunk"], 64);
  EXPECT_EQ(g.json["dim"], 96);
  EXPECT_EQ(g.node("x")["dtype"], "f32");
  EXPECT_EQ(g.output("y")["dtype"], "fp16");
  EXPECT_EQ(g.output("z")["dtype"], "f32");
}

TEST(DslOptions, OneTensorIsOverridden) {
  const Graph g(graph_of(two_tensors, {{"dtype.x", "fp16"}, {"out.y", "f32"}, {"out", "fp16"}}));
  EXPECT_EQ(g.node("x")["dtype"], "fp16");
  EXPECT_EQ(g.node("w")["dtype"], "f32");
  EXPECT_EQ(g.output("y")["dtype"], "f32");
}

TEST(DslOptions, EveryCommonSizePasses) {
  for (int chunk = 8; chunk <= 128; chunk += 8) EXPECT_EQ(Options({{"chunk", std::to_string(chunk)}}).chunk(), chunk);
  for (int dim = 16; dim <= 256; dim += 4) EXPECT_EQ(Options({{"dim", std::to_string(dim)}}).dim(), dim);
}

TEST(DslOptions, ASpecMayHaveAChunkOfItsOwn) {
  const auto chunk = [](const Options& o) {
    o.default_chunk(64);
    Spec s("own", "", o);
    return s.rows("t").extent();
  };
  const Options unset, set(Options::Values{{"chunk", "16"}});
  EXPECT_EQ(chunk(unset), 64);
  EXPECT_EQ(chunk(unset), 64);
  EXPECT_EQ(chunk(set), 16);
}

TEST(DslOptions, TheCompilersOwnPassThrough) {
  const Options::Values compilers = {
      {"grads", "f32"},      {"layout", "htd"},   {"upstream", "bf16"},        {"operands", "exact"},
      {"schedule", "tuned"}, {"save", "g_c,e_T"}, {"upstream_layout", "tile"}, {"arithmetic", "f32"},
      {"upstream.y", "f32"}};
  EXPECT_EQ(graph_of(two_tensors, compilers), graph_of(two_tensors));
}

TEST(DslOptions, DeclaredOnesAreListedWithDefaultAndValue) {
  const Graph g(graph_of(
      [](Spec& s, const Options& o, Axis t, Axis h, Axis) {
        const Constant eps = o.number("eps", 1e-6, 0, 1);
        const std::string mode = o.choice("mode", "fast", {"fast", "slow"});
        const long long taps = o.integer("taps", 3, 1, 8);
        o.number("eps", 1e-6, 0, 1);  // read again
        Value x = s.input("x", {t, h});
        for (int i = 1; i < taps; ++i) x = x + shift(x, t, i);
        s.output("y", mode == "slow" ? x * eps : x + eps);
      },
      {{"mode", "slow"}, {"taps", "2"}, {"eps", "+2.5e-1"}}));
  EXPECT_EQ(g.json["options"].dump(),
            R"([{"default":1e-06,"kind":"number","max":1,"min":0,"name":"eps","value":0.25},)"
            R"({"choices":["fast","slow"],"default":"fast","kind":"choice","name":"mode","value":"slow"},)"
            R"({"default":3,"kind":"integer","max":8,"min":1,"name":"taps","value":2}])");
  EXPECT_EQ(g.formula("y"), "((x + shift[t](x)) * eps)");
}
