// SPDX-License-Identifier: Apache-2.0
// Every shipped spec: the rewritten program against the unrewritten one in float64, and what fired.
#include <cmath>

#include <gtest/gtest.h>

#include "codegen/evaluator/finite_differences.h"
#include "codegen/import/from_graph.h"
#include "codegen/ir/Scalar.h"
#include "codegen/pipeline.h"
#include "codegen/rewrite/fixed_point_scan.h"
#include "kdagen/registry.h"
#include "tests/common/kernels.h"

namespace kdagen {
namespace {
using evaluator::Arrays;
using evaluator::Instance;
using kdagen::testing::draw_inputs;
using Settings = std::map<std::string, std::string>;

const RegisteredSpec& registered(const std::string& name) {
  for (const RegisteredSpec& spec : registered_specs())
    if (spec.name == name) return spec;
  throw UsageError("no spec is called " + name);
}

Compilation compiled(const std::string& name, Direction direction, Settings settings) {
  CompileOptions options = take_compile_options(settings);
  return Compilation(spec_graph(registered(name), Options(settings)), direction, options);
}

/// What the forward saves, from its own values.
void add_residuals(kda::KernelOp backward, kda::KernelOp forward, Arrays& inputs, const Instance& instance) {
  evaluator::EvaluateOptions options;
  for (auto op : backward.block().getOps<kda::InputOp>())
    if (op.getRole() == "residual") options.taps.insert(op.getTensor().str());
  if (options.taps.empty()) return;
  options.round_inputs = false;
  auto values = evaluator::evaluate(forward, inputs, instance, options);
  for (const std::string& name : options.taps) inputs[name] = values.tensors.at(name);
}

/// Forward inputs, and cotangents scaled so that output * cotangent is O(1).
Arrays inputs_of(Compilation& program, const Instance& instance) {
  kda::KernelOp forward = program.kernel(Stage::kda);
  Arrays inputs = draw_inputs(forward, instance, 21, -1.2, 1.2);
  Arrays exponents = evaluator::output_exponents(forward, inputs, instance);
  for (auto& [name, array] : draw_inputs(program.kernel(Stage::derived), instance, 23, -1, 1)) {
    if (inputs.count(name)) continue;
    auto found = exponents.find(name.substr(1));
    if (name.ends_with("_exp"))
      for (double& value : array.values) value = std::rint(3 * value);
    else if (found != exponents.end())
      for (size_t i = 0; i < array.values.size(); ++i) array.values[i] *= std::exp2(-found->second.values[i]);
    inputs[name] = array;
  }
  add_residuals(program.kernel(Stage::rewritten), forward, inputs, instance);
  add_residuals(program.kernel(Stage::derived), forward, inputs, instance);
  return inputs;
}

void expect_unchanged(const std::string& name, Settings settings, Direction direction = Direction::bwd) {
  std::string text = name + " " + std::string(direction_name(direction));
  for (const auto& [key, value] : settings) text += " " + key + "=" + value;
  SCOPED_TRACE(text);
  settings.emplace("operands", "exact");
  Compilation program = compiled(name, direction, settings);
  int64_t chunk = program.kernel(Stage::kda).chunk();
  Instance instance = Instance::packed_row({chunk + 3, 0, 5}, 2, 2);
  evaluator::EvaluateOptions unrounded;  // a saved value is stored as f32
  unrounded.round_inputs = false;
  auto found = evaluator::compare_kernels(program.kernel(Stage::rewritten), program.kernel(Stage::derived),
                                          inputs_of(program, instance), instance, unrounded, unrounded);
  EXPECT_FALSE(found.empty());
  for (const auto& output : found) EXPECT_FALSE(!(output.rel_l2 <= 1e-12)) << output.name << ": " << output.rel_l2;
}

TEST(RewrittenValues, DefaultOptions) {
  ASSERT_GE(registered_specs().size(), 5u);
  for (const RegisteredSpec& spec : registered_specs())
    for (Direction direction : {Direction::fwd, Direction::bwd})
      expect_unchanged(spec.name, {{"dim", "32"}}, direction);
}
TEST(RewrittenValues, OtherSizes) {
  for (const RegisteredSpec& spec : registered_specs()) {
    expect_unchanged(spec.name, {{"dim", "96"}, {"chunk", "8"}});
    expect_unchanged(spec.name, {{"dim", "20"}, {"chunk", "24"}});
  }
}
#ifdef KDAGEN_HAS_KDA_K1
TEST(RewrittenValues, HandOverForms) {
  for (const char* handover : {"raw", "premult", "premult4", "fused"})
    for (const char* diag : {"0", "1"})
      expect_unchanged("kda_k1", {{"dim", "16"}, {"handover", handover}, {"diag", diag}});
  for (const char* handover : {"raw", "premult4"})
    for (const char* chunk : {"16", "64"})
      expect_unchanged(
          "kda_k1", {{"dim", "16"}, {"handover", handover}, {"gt", "pure"}, {"chunk", chunk}, {"lower_bound", "-1"}});
  expect_unchanged("kda_k1", {{"dim", "16"}, {"anchor", "static"}});
  expect_unchanged("kda_k1", {{"dim", "16"}, {"upstream", "fp16row"}, {"lower_bound", "-0.25"}});
  expect_unchanged("kda_k1", {{"dim", "16"}, {"save", "g_c,e_T"}});
  expect_unchanged("kda_k1", {{"dim", "16"}, {"save", "e_T"}, {"gt", "pure"}});
}

TEST(RewrittenValues, FixedPointScans) {
  for (const RegisteredSpec& spec : registered_specs())
    for (const char* scan : {"float", "fixed"})
      for (Direction direction : {Direction::fwd, Direction::bwd})
        expect_unchanged(spec.name, {{"dim", "20"}, {"scan", scan}}, direction);
  for (const char* handover : {"raw", "fused"})
    expect_unchanged(
        "kda_k1", {{"dim", "16"}, {"scan", "fixed"}, {"handover", handover}, {"chunk", "24"}, {"lower_bound", "-2"}});
  expect_unchanged("kda_k1", {{"dim", "16"}, {"scan", "fixed"}, {"anchor", "static"}, {"gt", "pure"}}, Direction::fwd);
  expect_unchanged("kda_k1", {{"dim", "16"}, {"scan", "fixed"}, {"anchor", "static"}, {"gt", "pure"}});
}

int firings(Compilation& program, const std::string& rewrite) { return program.rewrites().firings(rewrite); }

template <typename OpTy>
int count_over(kda::KernelOp kernel, kda::AxisRole role) {
  int count = 0;
  for (auto op : kernel.block().getOps<OpTy>()) count += kda::has_role(op.getResult(), role);
  return count;
}

TEST(RewrittenText, RawHandOver) {
  Compilation program = compiled("kda_k1", Direction::bwd, {{"operands", "exact"}});
  EXPECT_EQ(firings(program, "projection"), 2);
  EXPECT_EQ(firings(program, "factored-decay"), 1);
  EXPECT_EQ(firings(program, "stable-sigmoid"), 2);
  EXPECT_EQ(firings(program, "shared-exponential"), 1);
  EXPECT_EQ(firings(program, "complement-scan"), 0);
  kda::KernelOp kernel = program.kernel(Stage::rewritten);
  // 2^{g_c} and 2^{-g_c} an element, 2^{g_T} a column
  EXPECT_EQ(count_over<kda::Exp2Op>(kernel, kda::AxisRole::Rows), 2);
  EXPECT_EQ(count_over<kda::Exp2Op>(kernel, kda::AxisRole::Feature), 3);
  EXPECT_EQ(count_over<kda::ScanOp>(kernel, kda::AxisRole::Rows), 2);  // g_c, and the suffix sum of dg_c
  // no ln2 but the gate's own log2e
  std::string constants;
  for (auto op : kernel.block().getOps<kda::ConstantOp>()) constants += kda::Scalar::of(op).text() + " ";
  EXPECT_EQ(constants, "eps 1 largest_float log2e*lower_bound scale lower_bound ");
}

TEST(RewrittenText, PureTotal) {
  Compilation program = compiled("kda_k1", Direction::bwd, {{"operands", "exact"}, {"gt", "pure"}});
  EXPECT_EQ(firings(program, "complement-scan"), 1);
  kda::KernelOp kernel = program.kernel(Stage::rewritten);
  int suffix = 0, prefix = 0;
  for (auto op : kernel.block().getOps<kda::ScanOp>()) {
    suffix += op.getReverse() && !op.getExclusive();
    prefix += !op.getReverse() && op.getExclusive();
  }
  EXPECT_EQ(suffix, 1);
  EXPECT_EQ(prefix, 1);
  // one log2e, on a column
  for (auto op : kernel.block().getOps<kda::MulOp>()) {
    auto scalar = kda::constant_scalar(op.getB());
    EXPECT_FALSE(scalar && *scalar == kda::Scalar::ln2().inverse() &&
                 kda::has_role(op.getResult(), kda::AxisRole::Rows));
  }
}

TEST(RewrittenText, SavedExponentialIsRead) {
  Compilation program = compiled("kda_k1", Direction::bwd, {{"save", "g_c,e_T"}});
  kda::KernelOp kernel = program.kernel(Stage::rewritten);
  std::vector<std::string> residuals;
  for (auto op : kernel.block().getOps<kda::InputOp>())
    if (op.getRole() == "residual") residuals.push_back(op.getTensor().str());
  EXPECT_EQ(residuals, (std::vector<std::string>{"g_c", "e_T"}));
  EXPECT_EQ(count_over<kda::ScanOp>(kernel, kda::AxisRole::Rows), 1);  // the gates are not summed again
}

TEST(RewrittenText, UnprovenExponentsStay) {
  Compilation program = compiled("kda_k1", Direction::bwd, {{"chunk", "32"}});
  EXPECT_EQ(firings(program, "shared-exponential"), 0);
  Compilation gla = compiled("gla", Direction::bwd, {{"chunk", "64"}});
  EXPECT_EQ(firings(gla, "shared-exponential"), 0);
}

/// Fraction bits of a named sum over rows; -1 for a float.
int fraction_bits(Compilation& program, const std::string& name) {
  for (const kda::RowSum& sum : kda::sums_over_rows(program.kernel(Stage::rewritten)))
    if (kda::user_name(sum.value) == name) return sum.fraction_bits;
  ADD_FAILURE() << "no sum over rows is called " << name;
  return -2;
}

TEST(RewrittenText, FixedPointGates) {
  struct Case {
    Settings settings;
    int fraction_bits;
  };
  // 16 rows of 5*log2(e) take 7 bits before the point, 64 rows 9, 16 rows of log2(e) 5
  // auto asks for anchored exponents
  const Case cases[] = {{{}, -1},
                        {{{"anchor", "static"}}, 24},
                        {{{"gt", "pure"}, {"anchor", "static"}, {"out", "f32"}}, 24},
                        {{{"scan", "fixed"}}, 24},
                        {{{"scan", "fixed"}, {"chunk", "64"}}, 22},
                        {{{"scan", "fixed"}, {"lower_bound", "-1"}}, 26},
                        {{{"scan", "fixed"}, {"save", "e_T"}}, 24},
                        {{{"anchor", "static"}, {"scan", "float"}}, -1},
                        {{{"handover", "fused"}}, -1},
                        {{{"handover", "fused"}, {"scan", "fixed"}}, 24}};
  for (const Case& each : cases)
    for (Direction direction : {Direction::fwd, Direction::bwd}) {
      Settings settings = each.settings;
      if (direction == Direction::bwd && settings.count("handover")) continue;  // needs no sum of gates
      Compilation program = compiled("kda_k1", direction, settings);
      EXPECT_EQ(fraction_bits(program, "g_c"), each.fraction_bits);
      EXPECT_EQ(firings(program, "fixed-point-scan") > 0, each.fraction_bits > 0);
    }
  Compilation saved = compiled("kda_k1", Direction::fwd, {{"scan", "fixed"}, {"save", "g_c"}});
  EXPECT_EQ(fraction_bits(saved, "g_c"), -1);
  // gates without a lower bound
  for (const char* name : {"gla", "gdn"})
    for (const char* scan : {"auto", "fixed"}) {
      Compilation program = compiled(name, Direction::fwd, {{"scan", scan}});
      EXPECT_EQ(firings(program, "fixed-point-scan"), 0) << name;
    }
}

/// No exponent of the gates is a float before it is an exponential; gradients are summed as floats.
TEST(RewrittenText, ExponentsStayIntegers) {
  for (const char* anchor : {"none", "static"})
    for (Direction direction : {Direction::fwd, Direction::bwd}) {
      Compilation program =
          compiled("kda_k1", direction, {{"scan", "fixed"}, {"anchor", anchor}, {"gt", "pure"}, {"operands", "exact"}});
      kda::KernelOp kernel = program.kernel(Stage::rewritten);
      int exponentials = 0, conversions = 0;
      for (auto op : kernel.block().getOps<kda::Exp2Op>()) exponentials += bool(kda::fixed_type(op.getX()));
      for (auto op : kernel.block().getOps<kda::FromFixedOp>()) conversions += !op.getResult().use_empty();
      EXPECT_EQ(exponentials, 3) << anchor;                                   // up, down, and the chunk's end
      EXPECT_EQ(conversions, direction == Direction::fwd ? 1 : 0) << anchor;  // the output g_T
      for (const kda::RowSum& sum : kda::sums_over_rows(kernel))
        if (kda::user_name(sum.value) != "g_c" && kda::user_name(sum.value) != "g_T") {
          EXPECT_EQ(sum.fraction_bits, -1);
        }
    }
}

/// The backward's gates are the forward's, bit for bit.
TEST(RewrittenValues, SameGatesInForwardAndBackward) {
  for (const char* scan : {"auto", "float"}) {
    Settings settings = {{"dim", "16"}, {"anchor", "static"}, {"scan", scan}};
    Compilation forward = compiled("kda_k1", Direction::fwd, settings),
                backward = compiled("kda_k1", Direction::bwd, settings);
    Instance instance = Instance::packed_row({19, 0, 5}, 2, 2);
    Arrays inputs = inputs_of(backward, instance);
    evaluator::EvaluateOptions options;
    options.arithmetic = evaluator::Arithmetic::f32;
    options.taps = {"g_c"};
    auto one =
        evaluator::evaluate(forward.kernel(Stage::rewritten), inputs, instance, options).tensors.at("g_c").values;
    auto other =
        evaluator::evaluate(backward.kernel(Stage::rewritten), inputs, instance, options).tensors.at("g_c").values;
    ASSERT_FALSE(one.empty());
    EXPECT_EQ(one, other);
    EXPECT_LT(*std::min_element(one.begin(), one.end()), -20);
  }
}

/// The rounded numbers are what the forward stores, whatever the type.
TEST(RewrittenText, RoundedOperands) {
  for (const char* out : {"bf16", "fp16"}) {
    Compilation program = compiled("kda_k1", Direction::bwd, {{"out", out}, {"dim", "16"}});
    EXPECT_EQ(firings(program, "rounded-operand"), 4) << out;
    EXPECT_EQ(firings(program, "factored-decay"), 0) << out;
    for (auto op : program.kernel(Stage::rewritten).block().getOps<kda::RoundOp>())
      EXPECT_EQ(op.getStorage().isBF16(), std::string(out) == "bf16");
  }
  Compilation exact = compiled("kda_k1", Direction::bwd, {{"out", "f32"}});
  EXPECT_EQ(firings(exact, "rounded-operand"), 0);
  EXPECT_EQ(firings(exact, "factored-decay"), 1);
}

/// Without real rounding the rounded program is the unrewritten one.
TEST(RewrittenValues, RoundedOperandsWithoutRounding) {
  for (Settings settings :
       {Settings{}, Settings{{"gt", "pure"}}, Settings{{"handover", "premult4"}}, Settings{{"save", "g_c"}}}) {
    settings.insert({{"dim", "16"}, {"operands", "rounded"}});
    expect_unchanged("kda_k1", settings);
  }
  expect_unchanged("gla", {{"dim", "16"}, {"operands", "rounded"}});
}
#endif

}  // namespace
}  // namespace kdagen
