// SPDX-License-Identifier: Apache-2.0
// Damaged graph bytes are refused with a message, whatever is damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kdagen/error.h"
#include "tests/common/kernels.h"
#include "tests/common/specs.h"

namespace kdagen {
namespace {
using nlohmann::json;
using ::testing::HasSubstr;

std::string good_graph() {
  Spec s("sample", "a bit of everything", Options());
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value x = s.input("x", {t, h, d}), p = s.param("p", {h, d});
  Value y = s.let("y", clamp(x * p, -1, 1) + shift(cumsum(x, t), t, 1, 0.5) * rsqrt(sum(x * x, d) + 1e-6));
  s.output("out", select(less(y, max(y, d)), round(y, bf16), 0.25 * index(d))).cotangent_unit(ln2);
  s.output("last_y", last(y, t));
  return s.graph();
}

std::string refusal(const std::string& bytes) {
  mlir::MLIRContext context;
  try {
    import_graph(bytes, context);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2) << error.what();
    return error.what();
  }
  return "";
}

std::string refusal_of(const std::function<void(json&)>& damage) {
  json graph = json::parse(good_graph());
  damage(graph);
  return refusal(graph.dump());
}

TEST(Import, GoodGraphPasses) { EXPECT_EQ(refusal(good_graph()), ""); }

TEST(Import, NamedDamage) {
  EXPECT_THAT(refusal("no json"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[1, 2]"), HasSubstr("not an object"));
  EXPECT_THAT(refusal_of([](json& g) { g["schema"] = 2; }), HasSubstr("schema"));
  EXPECT_THAT(refusal_of([](json& g) { g["summary"] = 2; }), HasSubstr("\"summary\" is not a string"));
  EXPECT_THAT(refusal_of([](json& g) { g["name"] = "../../x"; }), HasSubstr("no identifier"));  // files are called so
  EXPECT_THAT(refusal_of([](json& g) { g["nodes"][2]["operands"][0] = 9999; }), HasSubstr("not before it"));
  EXPECT_THAT(refusal_of([](json& g) { g["nodes"][2]["operands"] = {-1, 0}; }), HasSubstr("not before it"));
  EXPECT_THAT(refusal_of([](json& g) { g["nodes"][0]["dtype"] = "f64"; }), HasSubstr("unknown dtype"));
  EXPECT_THAT(refusal_of([](json& g) { g["nodes"][1]["name"] = "x"; }), HasSubstr("two values are called 'x'"));
  EXPECT_THAT(refusal_of([](json& g) { g["nodes"][1]["name"] = "_p"; }), HasSubstr("not an identifier"));
  EXPECT_THAT(refusal_of([](json& g) { g["nodes"][2]["op"] = "frobnicate"; }), HasSubstr("unknown op"));
  EXPECT_THAT(refusal_of([](json& g) { g["nodes"][2]["axes"] = {"t"}; }), HasSubstr("axes other than"));
  for (const json& axes : {json::array(), json{"t"}, json{"h", "d"}})
    EXPECT_THAT(refusal_of([&](json& g) { g["nodes"][0]["axes"] = axes; }), HasSubstr("for every token and head"));
  EXPECT_THAT(refusal_of([](json& g) { g["nodes"][1]["axes"] = {"t", "h"}; }), HasSubstr("make it an input"));
  EXPECT_THAT(refusal_of([](json& g) { g["axes"][1]["name"] = "t"; }), HasSubstr("second one called"));
  EXPECT_THAT(refusal_of([](json& g) { g["chunk"] = 1e30; }), HasSubstr("\"chunk\""));
  EXPECT_THAT(refusal_of([](json& g) { g["outputs"] = json::array(); }), HasSubstr("no output"));
  EXPECT_THAT(refusal_of([](json& g) { g["outputs"][1]["name"] = "out"; }), HasSubstr("two outputs"));
  EXPECT_THAT(refusal_of([](json& g) { g["outputs"][0]["unit"] = 0; }), HasSubstr("not a constant"));
  EXPECT_THAT(refusal_of([](json& g) { g["outputs"][0]["anchor"] = "deep"; }), HasSubstr("unknown anchor"));
}

// A spec that uses the compiler's own axis names keeps them.
TEST(Import, BatchAndChunkAxesStepAside) {
  json graph = json::parse(good_graph());
  std::string text = graph.dump();
  for (size_t at = 0; (at = text.find("\"t\"", at)) != std::string::npos;) text.replace(at, 3, "\"n\"");
  mlir::MLIRContext context;
  auto module = import_graph(text, context);
  EXPECT_EQ(testing::axes_of(testing::input_called(only_kernel(*module), "x").getResult()), "b,_n,n,h,d");
}

/// Every way to replace one entry of the document by something else.
void replace_everywhere(json& root, json& at, const std::function<void()>& visit) {
  static const json replacements[] = {nullptr,
                                      -1,
                                      1e308,
                                      18446744073709551615u,
                                      "",
                                      "x",
                                      json::array(),
                                      json::object(),
                                      true,
                                      json::array({json::array()})};
  for (const json& replacement : replacements) {
    json saved = at;
    at = replacement;
    visit();
    at = saved;
  }
  if (at.is_structured())
    for (auto& entry : at) replace_everywhere(root, entry, visit);
}

TEST(Import, AnyReplacedEntryIsRefusedOrHarmless) {
  json graph = json::parse(good_graph());
  mlir::MLIRContext context;
  int refused = 0, accepted = 0;
  replace_everywhere(graph, graph, [&] {
    try {
      import_graph(graph.dump(), context);
      ++accepted;
    } catch (const UsageError&) {
      ++refused;
    } catch (const SpecError&) {
      ++refused;
    }
  });
  EXPECT_GT(refused, accepted);
}

TEST(Import, CutBytesAreRefused) {
  std::string graph = good_graph();
  for (size_t length = 0; length < graph.size(); length += 1 + length / 40)
    EXPECT_NE(refusal(graph.substr(0, length)), "") << length;
}

}  // namespace
}  // namespace kdagen
