// SPDX-License-Identifier: Apache-2.0
// The adjoint rule of every op, derived and evaluated in float64, against central differences of the forward.
#include <cmath>

#include <gtest/gtest.h>

#include "codegen/derive/derive.h"
#include "codegen/evaluator/finite_differences.h"
#include "tests/common/kernels.h"

namespace kdagen {
namespace {
using evaluator::Arrays;
using evaluator::Instance;
using kdagen::testing::draw_inputs;
using kdagen::testing::Kernel;

/// One op between inputs and the output `y`; `type` is y's. Inputs: x, z tokens, r row scalar, c per chunk, p, hp, dp
/// parameters over {h,d}, {h}, {d}.
struct OpCase {
  std::string name;
  std::string body;
  std::string type = "!T";
  double low = -1, high = 1;
  double tie_spacing = 0;  ///< inputs are multiples of it: ties occur
};

void PrintTo(const OpCase& op, std::ostream* out) { *out << op.name; }

const std::map<std::string, std::string> inputs_by_type = {{"x", "!T"}, {"z", "!T"},  {"r", "!R"}, {"c", "!C"},
                                                           {"p", "!P"}, {"hp", "!H"}, {"dp", "!D"}};

std::string axes_of(const std::string& type) {
  if (type == "!T") return R"("b", "n", "t", "h", "d")";
  if (type == "!R") return R"("b", "n", "t", "h")";
  if (type == "!C") return R"("b", "n", "h", "d")";
  return R"("b", "n", "h")";
}

std::string forward_text(const OpCase& op) {
  std::string text;
  for (const auto& [name, type] : inputs_by_type)
    if (op.body.find("%" + name + " ") != std::string::npos || op.body.find("%" + name + ",") != std::string::npos)
      text += fmt::format("%{0} = kda.input \"{0}\" role \"{1}\" storage f32 : {2}\n", name,
                          type == "!P" || type == "!H" || type == "!D" ? "param" : "input", type);
  return text + op.body +
         fmt::format("\nkda.output %y as \"y\" role \"output\" storage f32 axes [{}] : {}\n", axes_of(op.type),
                     op.type);
}

class OpAdjoint : public ::testing::TestWithParam<OpCase> {};

TEST_P(OpAdjoint, MatchesFiniteDifferences) {
  const OpCase& op = GetParam();
  Kernel forward(forward_text(op), 8, 4);
  auto backward = derive(forward, CompileOptions{});
  Instance instance = Instance::packed_row({11, 0, 3, 8}, 2, 1);
  Arrays inputs = draw_inputs(forward, instance, 7, op.low, op.high), cotangents;
  for (auto& [name, array] : inputs)
    for (double& value : array.values)
      if (op.tie_spacing > 0) value = std::round(value / op.tie_spacing) * op.tie_spacing;
  for (auto& [name, array] : draw_inputs(only_kernel(*backward), instance, 9))
    if (name == "dy") cotangents[name] = array;
  evaluator::FiniteDifferenceOptions options;
  options.elements = 48;
  auto found = compare_with_finite_differences(forward, only_kernel(*backward), inputs, cotangents, instance, options);
  ASSERT_FALSE(found.empty());
  for (const auto& comparison : found) {
    EXPECT_FALSE(!(comparison.rel_l2 <= 1e-8)) << comparison.name << ": " << comparison.rel_l2;
    EXPECT_FALSE(!(comparison.directional <= 1e-8)) << comparison.name << ": " << comparison.directional;
  }
}

OpCase unary(const std::string& op, double low = -2, double high = 2) {
  return {op, fmt::format("%y = kda.{} %x : (!T) -> !T", op), "!T", low, high};
}
OpCase binary(const std::string& op, double low = -2, double high = 2) {
  return {op, fmt::format("%y = kda.{} %x , %z : (!T, !T) -> !T", op), "!T", low, high};
}

INSTANTIATE_TEST_SUITE_P(
    Pointwise, OpAdjoint,
    ::testing::Values(
        unary("neg"), unary("exp"), unary("exp2"), unary("log", 0.4, 3), unary("log1p", -0.5, 3), unary("sqrt", 0.4, 3),
        unary("rsqrt", 0.4, 3), unary("rcp", 0.4, 3), unary("sigmoid", -6, 6), unary("sigmoid_grad", -6, 6),
        unary("softplus", -6, 6), unary("tanh", -3, 3), binary("add"), binary("sub"), binary("mul"),
        binary("div", 0.4, 3), binary("pow", 0.4, 3), OpCase{"round", "%y = kda.round %x to bf16 : (!T) -> !T"},
        OpCase{"fma", "%y = kda.fma %x , %z , %p : (!T, !T, !P) -> !T"},
        OpCase{"square", "%two = kda.constant 2.0 [] : !K\n%y = kda.pow %x , %two : (!T, !K) -> !T"},
        OpCase{"cube", "%n = kda.constant 3.0 [] : !K\n%y = kda.pow %x , %n : (!T, !K) -> !T"},
        OpCase{"power_of_constant", "%n = kda.constant 3.0 [] : !K\n%y = kda.pow %n , %x : (!K, !T) -> !T"},
        OpCase{"same_operand_twice", "%y = kda.mul %x , %x : (!T, !T) -> !T"},
        OpCase{"detached_factor", "%e = kda.detach %x : (!T) -> !T\n%y = kda.mul %e, %x : (!T, !T) -> !T"},
        OpCase{"kept_exponential",
               "%e = kda.detach %x : (!T) -> !T\n%f = kda.sub %x , %e : (!T, !T) -> !T\n"
               "%g = kda.exp2 %f : (!T) -> !T\n%y = kda.mul %g, %z : (!T, !T) -> !T"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Branches, OpAdjoint,
    ::testing::Values(OpCase{"relu", "%y = kda.relu %x : (!T) -> !T", "!T", -2, 2, 0.25},
                      OpCase{"abs", "%y = kda.abs %x : (!T) -> !T", "!T", -2, 2, 0.25},
                      OpCase{"min", "%y = kda.min %x , %z : (!T, !T) -> !T", "!T", -2, 2, 0.25},
                      OpCase{"max", "%y = kda.max %x , %z : (!T, !T) -> !T", "!T", -2, 2, 0.25},
                      OpCase{"clamp", "%y = kda.clamp %x from -1.1 to 1.1 : (!T) -> !T", "!T", -2, 2, 0.25},
                      OpCase{"select_less",
                             "%k = kda.constant 0.1 [] : !K\n%l = kda.less %x , %k : (!T, !K) -> !TB\n"
                             "%y = kda.select %l, %x , %z : (!TB, !T, !T) -> !T",
                             "!T", -2, 2, 0.25},
                      OpCase{"select_less_equal",
                             "%k = kda.constant 0.1 [] : !K\n%l = kda.less_equal %k, %x : (!K, !T) -> !TB\n"
                             "%y = kda.select %l, %r , %z : (!TB, !R, !T) -> !T",
                             "!T", -2, 2, 0.25},
                      OpCase{"select_nan",
                             "%m = kda.log %x : (!T) -> !T\n%l = kda.isnan %m : (!T) -> !TB\n"
                             "%k = kda.constant 1.0 [] : !K\n%safe = kda.select %l, %k, %x : (!TB, !K, !T) -> !T\n"
                             "%y = kda.log %safe : (!T) -> !T",
                             "!T", -2.1, 2, 0}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Broadcast, OpAdjoint,
    ::testing::Values(OpCase{"mul_rows", "%y = kda.mul %x , %r : (!T, !R) -> !T"},
                      OpCase{"mul_chunk", "%y = kda.mul %x , %c : (!T, !C) -> !T"},
                      OpCase{"mul_head_feature", "%y = kda.mul %p , %x : (!P, !T) -> !T"},
                      OpCase{"mul_head", "%y = kda.mul %x , %hp : (!T, !H) -> !T"},
                      OpCase{"mul_feature", "%y = kda.mul %x , %dp : (!T, !D) -> !T"},
                      OpCase{"row_times_head", "%y = kda.mul %r , %hp : (!R, !H) -> !R", "!R"},
                      OpCase{"outer", "%y = kda.mul %r , %dp : (!R, !D) -> !T"},
                      OpCase{"parameters_alone",
                             "%e = kda.exp %hp : (!H) -> !H\n%f = kda.mul %e, %dp : (!H, !D) -> !P\n"
                             "%y = kda.mul %x , %f : (!T, !P) -> !T"},
                      OpCase{"sum_of_parameters",
                             "%e = kda.mul %p , %p : (!P, !P) -> !P\n%s = kda.sum %e over [\"d\"] : (!P) -> !H\n"
                             "%y = kda.mul %x , %s : (!T, !H) -> !T"},
                      OpCase{"broadcast", "%e = kda.broadcast %r : (!R) -> !T\n%y = kda.mul %e, %x : (!T, !T) -> !T"}),
    [](const auto& info) { return info.param.name; });

OpCase scan(const std::string& name, bool exclusive, bool reverse) {
  return {name, fmt::format("%s = kda.scan %x over \"t\" exclusive {} reverse {} : (!T) -> !T\n"
                            "%y = kda.mul %s, %z : (!T, !T) -> !T",
                            exclusive, reverse)};
}

INSTANTIATE_TEST_SUITE_P(
    OverAxes, OpAdjoint,
    ::testing::Values(
        scan("scan", false, false), scan("exclusive", true, false), scan("reverse", false, true),
        scan("exclusive_reverse", true, true),
        OpCase{"scan_of_row_scalars", "%y = kda.scan %r over \"t\" exclusive false reverse true : (!R) -> !R", "!R"},
        OpCase{"last", "%l = kda.last %x over \"t\" : (!T) -> !C\n%y = kda.mul %l, %x : (!C, !T) -> !T"},
        OpCase{"last_alone", "%y = kda.last %x over \"t\" : (!T) -> !C", "!C"},
        OpCase{"at_last", "%l = kda.at_last %c over \"t\" : (!C) -> !T\n%y = kda.mul %l, %x : (!T, !T) -> !T"},
        OpCase{"shift_down",
               "%l = kda.shift %x over \"t\" amount 2 fill 0.5 : (!T) -> !T\n%y = kda.mul %l, %z : (!T, !T) -> !T"},
        OpCase{"shift_up",
               "%l = kda.shift %x over \"t\" amount -3 fill 0.5 : (!T) -> !T\n%y = kda.mul %l, %x : (!T, !T) -> !T"},
        OpCase{
            "index",
            "%i = kda.index \"t\" : !kda.value<[b, n, t], f32>\n%y = kda.mul %x , %i : (!T, !kda.value<[b, n, t], f32>) -> !T"},
        OpCase{"column_index", "%i = kda.index \"d\" : !D\n%y = kda.mul %x , %i : (!T, !D) -> !T"},
        OpCase{"sum_features", "%m = kda.mul %x , %x : (!T, !T) -> !T\n%y = kda.sum %m over [\"d\"] : (!T) -> !R",
               "!R"},
        OpCase{"sum_rows", "%m = kda.mul %x , %z : (!T, !T) -> !T\n%y = kda.sum %m over [\"t\"] : (!T) -> !C", "!C"},
        OpCase{"sum_both", "%m = kda.mul %x , %x : (!T, !T) -> !T\n%y = kda.sum %m over [\"t\", \"d\"] : (!T) -> !S",
               "!S"},
        OpCase{"max_features",
               "%m = kda.max_reduce %x over [\"d\"] : (!T) -> !R\n%y = kda.mul %m, %x : (!R, !T) -> !T"},
        OpCase{"max_rows", "%m = kda.max_reduce %x over [\"t\"] : (!T) -> !C\n%y = kda.mul %m, %x : (!C, !T) -> !T"},
        OpCase{"max_both",
               "%m = kda.max_reduce %x over [\"t\", \"d\"] : (!T) -> !S\n%y = kda.mul %m, %x : (!S, !T) -> !T"}),
    [](const auto& info) { return info.param.name; });

/// Where the rule is a convention that differences cannot see: clamp at its bounds has slope 1, a maximum shared by k
/// elements gives each 1/k.
TEST(OpConventions, ClampAtTheBoundAndSharedMaxima) {
  Kernel forward(R"(
    %x = kda.input "x" role "input" storage f32 : !T
    %y = kda.clamp %x from -1.0 to 1.0 : (!T) -> !T
    %m = kda.max_reduce %x over ["d"] : (!T) -> !R
    kda.output %y as "y" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %m as "m" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
  )",
                 8, 4);
  CompileOptions options;
  options.grads = "f32";
  auto backward = derive(forward, options);
  auto gradient = [&](std::vector<double> x, std::vector<double> dy, double dm) {
    Arrays inputs{{"x", {x, {}}}, {"dy", {dy, {}}}, {"dm", {{dm}, {}}}};
    return evaluator::evaluate(only_kernel(*backward), inputs, Instance::fixed(1, 1, 1)).tensors["dx"].values;
  };
  EXPECT_EQ(gradient({-1, 1, 1.5, 0.25}, {2, 3, 4, 5}, 0), (std::vector<double>{2, 3, 0, 5}));
  EXPECT_EQ(gradient({7, 7, 0, 7}, {0, 0, 0, 0}, 6), (std::vector<double>{2, 2, 0, 2}));
}

}  // namespace
}  // namespace kdagen
