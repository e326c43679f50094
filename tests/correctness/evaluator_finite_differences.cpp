// SPDX-License-Identifier: Apache-2.0
// Finite differences against backward kernels written by hand, right and wrong ones; output exponents.
#include "codegen/evaluator/finite_differences.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <kdagen/error.h>

#include "tests/common/kernels.h"

namespace kdagen::evaluator {
namespace {
using kdagen::testing::draw_inputs;
using kdagen::testing::Kernel;

// y = x * 2^(c - detach(c)) with c = cumsum(w*x), unit ln2; so y = x, dy/dc = x ln2, and with the unit x ln2^2.
const char* forward_body = R"(
    %x = kda.input "x" role "input" storage bf16 : !T
    %w = kda.input "w" role "param" storage f32 : !P
    %wx = kda.mul %x, %w : (!T, !P) -> !T
    %c = kda.scan %wx over "t" exclusive false reverse false : (!T) -> !T
    %held = kda.detach %c : (!T) -> !T
    %delta = kda.sub %c, %held : (!T, !T) -> !T
    %one = kda.exp2 %delta : (!T) -> !T
    %y = kda.mul %x, %one : (!T, !T) -> !T
    %r = kda.round %y to bf16 : (!T) -> !T
    kda.output %r as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"]
      {unit_coefficient = 1.0 : f64, unit_symbols = [#kda.symbol<"ln2", 0.6931471805599453 : f64, 1>]} : !T
)";

std::string backward_body(const std::string& dx) {
  return R"(
    %x = kda.input "x" role "input" storage bf16 : !T
    %w = kda.input "w" role "param" storage f32 : !P
    %dy = kda.input "dy" role "cotangent" storage f32 : !T
    %ln2 = kda.constant 1.0 [#kda.symbol<"ln2", 0.6931471805599453 : f64, 1>] : !K
    %true = kda.mul %dy, %ln2 : (!T, !K) -> !T
    %a = kda.mul %true, %x : (!T, !T) -> !T
    %b = kda.mul %a, %ln2 : (!T, !K) -> !T
    %dwx = kda.scan %b over "t" exclusive false reverse true : (!T) -> !T
    %through = kda.mul %dwx, %w : (!T, !P) -> !T
    %dx = )" +
         dx + R"(
    %dwr = kda.mul %dwx, %x : (!T, !T) -> !T
    %dw = kda.sum %dwr over ["b", "n", "t"] : (!T) -> !P
    kda.output %dx as "dx" role "gradient" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %dw as "dw" role "param_gradient" storage f32 axes ["h", "d"] : !P
)";
}

TEST(FiniteDifferences, RightAndWrongBackwards) {
  Instance instance = Instance::packed_row({11, 0, 3}, 2, 2);
  Kernel forward(forward_body, 8, 4);
  Arrays inputs = draw_inputs(forward, instance, 4), cotangents;
  Kernel right(backward_body("kda.add %true, %through : (!T, !T) -> !T"), 8, 4, "bwd");
  Kernel wrong(backward_body("kda.sub %true, %through : (!T, !T) -> !T"), 8, 4, "bwd");
  for (auto& [name, array] : draw_inputs(right, instance, 5))
    if (name == "dy") cotangents[name] = array;
  for (const Comparison& found : compare_with_finite_differences(forward, right, inputs, cotangents, instance)) {
    EXPECT_FALSE(!(found.rel_l2 <= 1e-10)) << found.name << " " << found.rel_l2;
    EXPECT_FALSE(!(found.directional <= 1e-10)) << found.name << " " << found.directional;
  }
  auto found = compare_with_finite_differences(forward, wrong, inputs, cotangents, instance);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "dx");
  EXPECT_GT(found[0].rel_l2, 0.1);
  EXPECT_GT(found[0].directional, 1e-3);
  EXPECT_LT(found[1].rel_l2, 1e-10);
  EXPECT_THROW(compare_with_finite_differences(forward, right, inputs, {}, instance), UsageError);
}

// A backward is judged by the digits that float64 leaves it: 1e11 dy comes and goes again. A wrong sign is seen all the
// same.
TEST(FiniteDifferences, BackwardsThatLoseDigits) {
  Instance instance = Instance::packed_row({11, 0, 3}, 2, 2);
  Kernel forward(forward_body, 8, 4);
  Arrays inputs = draw_inputs(forward, instance, 4), cotangents;
  auto backward = [](const char* sign) {
    std::string body = backward_body("kda.sub %sum, %big : (!T, !T) -> !T");
    body.insert(body.find("    %dx = "), fmt::format(R"(    %far = kda.constant 1.0e11 [] : !K
    %big = kda.mul %dy, %far : (!T, !K) -> !T
    %small = kda.{} %true, %through : (!T, !T) -> !T
    %sum = kda.add %small, %big : (!T, !T) -> !T
)",
                                                     sign));
    return body;
  };
  Kernel right(backward("add"), 8, 4, "bwd"), wrong(backward("sub"), 8, 4, "bwd");
  for (auto& [name, array] : draw_inputs(right, instance, 5))
    if (name == "dy") cotangents[name] = array;
  const auto found = compare_with_finite_differences(forward, right, inputs, cotangents, instance);
  EXPECT_FALSE(!(found[0].rel_l2 <= 1e-9)) << found[0].rel_l2;
  EXPECT_FALSE(!(found[0].max_rel <= 1e-9)) << found[0].max_rel;
  EXPECT_GT(compare_with_finite_differences(forward, wrong, inputs, cotangents, instance)[0].rel_l2, 0.1);
}

TEST(FiniteDifferences, ComparisonsNeverPassNan) {
  double nan = std::nan("");
  EXPECT_TRUE(!(compare("x", {1, nan}, {1, 2}).rel_l2 <= 1));
  EXPECT_TRUE(!(compare("x", {1, nan}, {1, 2}).max_rel <= 1));
  EXPECT_TRUE(!(compare("x", {1, 2}, {1, nan}).max_rel <= 1));
  EXPECT_TRUE(!(compare("x", {1}, {1, 2}).rel_l2 <= 1));
  EXPECT_TRUE(!(compare("x", {1}, {0}).rel_l2 <= 1));
  EXPECT_EQ(compare("x", {0, 0}, {0, 0}).rel_l2, 0);
  EXPECT_NEAR(compare("x", {3, 4.5}, {3, 4}).rel_l2, 0.1, 1e-15);
  EXPECT_NEAR(compare("x", {3, 4.5}, {3, 4}).max_rel, 0.125, 1e-15);
}

TEST(FiniteDifferences, OneKernelAgainstAnother) {
  Instance instance = Instance::fixed(1, 9, 2);
  Kernel right(backward_body("kda.add %true, %through : (!T, !T) -> !T"), 8, 4, "bwd");
  Kernel again(backward_body("kda.add %through, %true : (!T, !T) -> !T"), 8, 4, "bwd");
  Kernel wrong(backward_body("kda.sub %true, %through : (!T, !T) -> !T"), 8, 4, "bwd");
  Arrays inputs = draw_inputs(right, instance, 5);
  for (const Comparison& found : compare_kernels(again, right, inputs, instance)) EXPECT_EQ(found.rel_l2, 0);
  auto found = compare_kernels(wrong, right, inputs, instance);
  EXPECT_GT(found[1].rel_l2, 0.1);
  EXPECT_EQ(found[0].rel_l2, 0);
}

TEST(OutputExponents, OfProducts) {
  Kernel kernel(R"(
    %x = kda.input "x" role "input" storage f32 : !T
    %g = kda.input "g" role "input" storage f32 : !T
    %c = kda.scan %g over "t" exclusive false reverse false : (!T) -> !T
    %last = kda.last %c over "t" : (!T) -> !C
    %n = kda.neg %c : (!T) -> !T
    %e1 = kda.exp2 %c : (!T) -> !T
    %e2 = kda.exp %n : (!T) -> !T
    %up = kda.mul %x, %e1 : (!T, !T) -> !T
    %down = kda.div %e2, %x : (!T, !T) -> !T
    %both = kda.mul %up, %down : (!T, !T) -> !T
    %sum = kda.add %x, %e1 : (!T, !T) -> !T
    %end = kda.exp2 %last : (!C) -> !C
    %spread = kda.broadcast %end : (!C) -> !T
    kda.output %up as "up" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %down as "down" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %both as "both" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %sum as "sum" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %spread as "spread" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %c as "c" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
  )",
                8, 2);
  Instance instance = Instance::fixed(1, 11, 1);
  Arrays inputs = draw_inputs(kernel, instance, 5);
  for (double& value : inputs["g"].values) value = float(value);
  Arrays values = evaluate(kernel, inputs, instance).tensors, exponents = output_exponents(kernel, inputs, instance);
  constexpr double log2e = 1.4426950408889634;
  for (int i = 0; i < 22; ++i) {
    double c = values["c"].values[i];
    EXPECT_NEAR(exponents["up"].values[i], c, 1e-14);
    EXPECT_NEAR(exponents["down"].values[i], -c * log2e, 1e-14);
    EXPECT_NEAR(exponents["both"].values[i], c - c * log2e, 1e-14);
    EXPECT_EQ(exponents["sum"].values[i], 0);
    EXPECT_EQ(exponents["c"].values[i], 0);
    EXPECT_NEAR(exponents["spread"].values[i], std::log2(values["spread"].values[i]), 1e-13);
  }
}

}  // namespace
}  // namespace kdagen::evaluator
