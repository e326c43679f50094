// SPDX-License-Identifier: Apache-2.0
// The graph's bytes: ops and attributes, constants, names, order, locations, locale.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <locale>

#include "tests/common/spec_graph.h"

using namespace kdagen;
using kdagen::test::Graph;
using kdagen::test::graph_of;

TEST(Graph, EveryOpHasItsAttributes) {
  const Graph g(graph_of([](Spec& s, const Options&, Axis t, Axis h, Axis d) {
    Value x = s.input("x", {t, h, d}).bounds(-4, 4), w = s.input("w", f32, {h, t}).optional(1.0);
    Value p = s.param("p", {}).bounds(0, Options::unbounded);
    s.let("shifted", shift(x, t, -2, 0.5));
    s.let("both", sum(x * w, {d, t}));
    s.let("largest", max(x, d));
    s.let("clamped", clamp(x, -1, 2));
    s.let("rounded", round(x, fp16));
    s.let("chosen", select(isnan(x), 0, where(x > w, min(x, p), max(x, p))));
    s.let("before", cumsum(x, t, {.exclusive = true}));
    s.let("column", index(d) + index(t));
    s.let("end", last(x, t));
    s.output("y", pow(abs(x), 2.0) + log1p(relu(x)) + neg(sqrt(p)) + exp(log(p)) + w);
  }));
  EXPECT_EQ(g.node("x")["lower"], -4.0);
  EXPECT_EQ(g.node("x")["upper"], 4.0);
  EXPECT_EQ(g.node("w")["dtype"], "f32");
  EXPECT_EQ(g.node("w")["optional"], true);
  EXPECT_EQ(g.node("w")["absent"], 1.0);
  EXPECT_EQ(g.node("w")["axes"].dump(), R"(["t","h"])");
  EXPECT_EQ(g.node("p")["lower"], 0.0);
  EXPECT_FALSE(g.node("p").contains("upper"));
  EXPECT_EQ(g.node("shifted")["amount"], -2);
  EXPECT_EQ(g.node("shifted")["fill"], 0.5);
  EXPECT_EQ(g.node("both")["over"].dump(), R"(["t","d"])");
  EXPECT_EQ(g.node("both")["axes"].dump(), R"(["h"])");
  EXPECT_EQ(g.node("largest")["op"], "max_reduce");
  EXPECT_EQ(g.node("clamped")["upper"], 2.0);
  EXPECT_EQ(g.node("rounded")["dtype"], "fp16");
  EXPECT_EQ(g.formula("chosen"), "select(isnan(x), 0, select(less(w, x), min(x, p), max(x, p)))");
  EXPECT_EQ(g.formula("before"), "cumsum[t exclusive](x)");
  EXPECT_EQ(g.node("column")["axes"].dump(), R"(["t","d"])");
  EXPECT_EQ(g.formula("end"), "last[t](x)");
  EXPECT_EQ(g.formula("y"), "((((pow(abs(x), 2) + log1p(relu(x))) + neg(sqrt(p))) + exp(log(p))) + w)");
}

TEST(Graph, CompositesAreTheirFormulas) {
  const Graph g(graph_of([](Spec& s, const Options&, Axis t, Axis h, Axis d) {
    Value x = s.input("x", {t, h, d});
    s.output("a", softmax(x, d));
    s.output("b", silu(x));
    s.output("c", rmsnorm(x, d, 0.25));
    s.output("e", logsigmoid(x));
  }));
  const std::string e = R"(exp((x - detach(max_reduce[["d"]](x)))))";
  EXPECT_EQ(g.formula("a"), "(" + e + R"( / sum[["d"]]()" + e + "))");
  EXPECT_EQ(g.formula("b"), "(x * sigmoid(x))");
  EXPECT_EQ(g.formula("c"), R"((x * rsqrt(((sum[["d"]]((x * x)) / 128) + 0.25))))");
  EXPECT_EQ(g.formula("e"), "neg(softplus(neg(x)))");
}

TEST(Graph, ConstantsStaySymbolicAndCancel) {
  const Graph g(graph_of(
      [](Spec& s, const Options& o, Axis t, Axis h, Axis) {
        Constant bound = o.number("bound", -5, -10, 0), eps = o.number("eps", 1e-6);
        Value x = s.input("x", {t, h});
        s.output("cancelled", x * (bound * log2e * ln2));
        s.output("kept", x * (2 * bound / ln2 / ln2) + 3);
        s.output("sum", x + (eps + eps) + (eps - 1.0));
        s.output("folded", x * (Value(bound) * log2e) * -ln2);
      },
      {{"bound", "-2.5"}}));
  EXPECT_EQ(g.formula("cancelled"), "(x * bound)");
  EXPECT_EQ(g.formula("kept"), "((x * 2*bound*ln2^-2) + 3)");
  EXPECT_EQ(g.formula("sum"), "((x + 2*eps) + (eps - 1))");
  EXPECT_EQ(g.formula("folded"), "((x * bound*ln2^-1) * -1*ln2)");
  EXPECT_EQ(g.option("bound")["value"], -2.5);
  EXPECT_EQ(g.option("bound")["default"], -5.0);
  EXPECT_FALSE(g.option("eps").contains("min"));
}

TEST(Graph, ConstantValueIsTheProduct) {
  const Constant c = 3 * Constant::symbol("a", 2) / Constant::symbol("b", 4) / Constant::symbol("b", 4);
  EXPECT_DOUBLE_EQ(c.value(), 3.0 * 2 / 16);
  EXPECT_DOUBLE_EQ((ln2 * log2e).value(), 1.0);
  EXPECT_TRUE((ln2 * log2e).symbols().empty());
}

TEST(Graph, OrderOfDeclarationChangesNoFormula) {
  const auto spec = [](bool swapped) {
    return Graph(graph_of([&](Spec& s, const Options&, Axis t, Axis h, Axis d) {
      Value a, b;
      const auto declare_a = [&] { a = s.input("a", {t, h, d}); };
      const auto declare_b = [&] { b = s.param("b", {d}); };
      swapped ? (declare_b(), declare_a()) : (declare_a(), declare_b());
      Value u = a * b, v = cumsum(a + b, t);
      const auto output_u = [&] { s.output("u", u - v); };
      const auto output_v = [&] { s.output("v", v * u); };
      swapped ? (output_v(), output_u()) : (output_u(), output_v());
    }));
  };
  const Graph first = spec(false), second = spec(true);
  for (const char* name : {"u", "v"}) {
    EXPECT_EQ(first.formula(name), second.formula(name));
    EXPECT_EQ(first.node(name)["axes"], second.node(name)["axes"]);
  }
  EXPECT_EQ(second.output_names(), "v u");
}

TEST(Graph, DeadValuesGoUnlessNamed) {
  const Graph g(graph_of([](Spec& s, const Options&, Axis t, Axis h, Axis d) {
    Value x = s.input("x", {t, h, d});
    Value unused = tanh(x);
    s.let("kept", exp(x));
    s.output("y", x);
  }));
  EXPECT_EQ(g.json["nodes"].size(), 2u);
  EXPECT_EQ(g.formula("kept"), "exp(x)");
}

TEST(Graph, LinesAreTheUsers) {
  int line = 0;
  const Graph g(graph_of([&](Spec& s, const Options&, Axis t, Axis h, Axis d) {
    Value x = s.input("x", {t, h, d});
    line = __LINE__;
    Value a = s.let("a", x * 2.0);
    Value b = s.let("b", -x);
    Value c = s.let("c", softmax(x, d));
    Value e = s.let("e", l2norm(x, d) + silu(x));
    s.output("y", e);
  }));
  EXPECT_EQ(g.json["file"], "tests/correctness/dsl_graph.cpp");
  EXPECT_EQ(g.node("x")["line"], line - 1);
  EXPECT_EQ(g.node("a")["line"], line + 1);
  EXPECT_EQ(g.node("b")["line"], line + 2);
  EXPECT_EQ(g.node("c")["line"], line + 3);
  for (const auto& node : g.json["nodes"]) {
    EXPECT_THAT(node["line"].get<int>(), testing::AllOf(testing::Ge(line - 1), testing::Le(line + 4))) << node;
    EXPECT_FALSE(node.contains("file")) << node;
    EXPECT_FALSE(node.contains("column")) << node;  // compilers disagree about it
  }
  EXPECT_EQ(g.output("y")["line"], line + 5);
}

// T069
TEST(Graph, KeywordsAndPlainNamesPass) {
  const Graph g(graph_of([](Spec& s, const Options&, Axis t, Axis h, Axis d) {
    Value x = s.input("double", {t, h, d}), y = s.input("if_", {t, h, d});
    s.let("if", x + y);
    s.let("threadIdx", x - y);
    s.output("asm", x * y);
    s.output("main", y);
  }));
  EXPECT_EQ(g.formula("asm"), "(double * if_)");
  EXPECT_EQ(g.formula("main"), "if_");
}

TEST(Graph, AnOutputMayCarryTheNameOfItsValueAndShareANode) {
  const Graph g(graph_of([](Spec& s, const Options&, Axis t, Axis h, Axis d) {
    Value u = s.let("u", exp2(s.input("x", {t, h, d})));
    s.output("u", u);
    s.output("v", u).dtype(f32).cotangent_unit(2 * ln2);
  }));
  EXPECT_EQ(g.output("u")["node"], g.output("v")["node"]);
  EXPECT_EQ(g.output("v")["dtype"], "f32");
  EXPECT_EQ(g.unit("v"), "2*ln2");
}

namespace {
struct Commas : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};
}  // namespace

// T070
TEST(Graph, LocaleChangesNothing) {
  const auto build = [] {
    return graph_of(
        [](Spec& s, const Options& o, Axis t, Axis h, Axis) {
          Value x = s.input("x", {t, h});
          Value y = x * 1.4426950408889634 + 1e-12 - 1e30 * x + 0.1 * x + 16777217.0 + o.number("eps", 1e-6);
          s.output("y", y);
        },
        {{"eps", "1.5e-6"}});
  };
  const std::string plain = build();
  const std::locale before = std::locale::global(std::locale(std::locale(), new Commas));
  const std::string commas = build();
  std::locale::global(before);
  EXPECT_EQ(plain, commas);
  std::string constants;
  const Graph g(plain);
  for (const auto& node : g.json["nodes"])
    if (node["op"] == "constant") constants += text::number(node["coefficient"]) + " ";
  EXPECT_EQ(constants, "1.4426950408889634 1e-12 1e+30 0.1 16777217 1 ");
}

TEST(Graph, AMillionOpsAreNoRecursion) {
  const std::string bytes = graph_of([](Spec& s, const Options&, Axis t, Axis h, Axis) {
    Value x = s.input("x", {t, h});
    for (int i = 0; i < 200000; ++i) x = x + x;
    s.output("y", x);
  });
  EXPECT_GT(bytes.size(), 200000u);
}

TEST(Graph, TextIsEscaped) {
  Spec s("sample", "a \"quote\", a \\ and a\ttab; \xC3\xA9", Options());
  Axis t = s.rows("t"), h = s.heads("h");
  s.output("y", s.input("x", {t, h}));
  EXPECT_EQ(Graph(s.graph()).json["summary"], "a \"quote\", a \\ and a\ttab; \xC3\xA9");
}
