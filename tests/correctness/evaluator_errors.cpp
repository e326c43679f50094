// SPDX-License-Identifier: Apache-2.0
// The running error bound: float32 never leaves it, and it is not absurdly loose.
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "codegen/evaluator/number.h"
#include "tests/common/kernels.h"

namespace kdagen::evaluator {
namespace {
using kdagen::testing::draw_inputs;
using kdagen::testing::Draws;
using kdagen::testing::Kernel;

/// One function in float, at an argument that is itself off by `error`, against its Tracked rule.
template <class Real, class Track>
void expect_function_within(const char* name, Real real, Track track, double low, double high) {
  Draws draws(17);
  double loosest = 0;
  for (int i = 0; i < 20000; ++i) {
    double x = draws.uniform(low, high);
    double error = i % 2 ? 0 : std::fabs(x) * draws.uniform(0, 0x1p-20);
    float moved = i % 2 ? float(x) : float(x + (i % 4 ? 0.9 : -0.9) * error);
    if (i % 2) x = moved;
    Tracked z = track(Tracked(x, i % 2 ? 0 : error + std::fabs(x) * 0x1p-24));
    double difference = std::fabs(double(real(moved)) - z.value);
    ASSERT_FALSE(!(difference <= z.error * (1 + 1e-4)))
        << name << "(" << x << "): off by " << difference << ", bound " << z.error;
    loosest = std::max(loosest, difference / z.error);
  }
  EXPECT_GT(loosest, 0.1) << name;
}

TEST(RunningError, Functions) {
  namespace f = functions;
  expect_function_within("exp2", [](float x) { return f::exp2(x); }, [](Tracked x) { return f::exp2(x); }, -30, 30);
  expect_function_within("exp", [](float x) { return f::exp(x); }, [](Tracked x) { return f::exp(x); }, -20, 20);
  expect_function_within("log", [](float x) { return f::log(x); }, [](Tracked x) { return f::log(x); }, 0.01, 9);
  expect_function_within("log1p", [](float x) { return f::log1p(x); }, [](Tracked x) { return f::log1p(x); }, -0.9, 9);
  expect_function_within("sqrt", [](float x) { return f::sqrt(x); }, [](Tracked x) { return f::sqrt(x); }, 0, 9);
  expect_function_within("rsqrt", [](float x) { return f::rsqrt(x); }, [](Tracked x) { return f::rsqrt(x); }, 0.01, 9);
  expect_function_within("rcp", [](float x) { return f::rcp(x); }, [](Tracked x) { return f::rcp(x); }, 0.01, 9);
  expect_function_within(
      "sigmoid", [](float x) { return f::sigmoid(x); }, [](Tracked x) { return f::sigmoid(x); }, -30, 30);
  expect_function_within(
      "sigmoid_grad", [](float x) { return f::sigmoid_grad(x); }, [](Tracked x) { return f::sigmoid_grad(x); }, -30,
      30);
  expect_function_within(
      "softplus", [](float x) { return f::softplus(x); }, [](Tracked x) { return f::softplus(x); }, -20, 20);
  expect_function_within("tanh", [](float x) { return f::tanh(x); }, [](Tracked x) { return f::tanh(x); }, -5, 5);
  expect_function_within(
      "pow", [](float x) { return f::pow(x, 2.5f); }, [](Tracked x) { return f::pow(x, Tracked(2.5)); }, 0.1, 9);
  expect_function_within(
      "2.5^x", [](float x) { return f::pow(2.5f, x); }, [](Tracked x) { return f::pow(Tracked(2.5), x); }, -9, 9);
  expect_function_within("x*x", [](float x) { return x * x; }, [](Tracked x) { return x * x; }, -9, 9);
  expect_function_within(
      "x/(x+1)", [](float x) { return x / (x + 1.0f); }, [](Tracked x) { return x / (x + Tracked(1)); }, 0, 9);
  expect_function_within(
      "max(x, 1)", [](float x) { return f::max(x, 1.0f); }, [](Tracked x) { return f::max(x, Tracked(1)); }, 0, 2);
  expect_function_within(
      "min(x, 1)", [](float x) { return f::min(x, 1.0f); }, [](Tracked x) { return f::min(x, Tracked(1)); }, 0, 2);
  expect_function_within("relu", [](float x) { return f::relu(x); }, [](Tracked x) { return f::relu(x); }, -1e-5, 1e-5);
  expect_function_within(
      "clamp", [](float x) { return f::clamp(x, -1, 1); }, [](Tracked x) { return f::clamp(x, -1, 1); }, -2, 2);
}

TEST(RunningError, Rounding) {
  Storage bf16{8, -126, std::ldexp(255.0, 120)};
  // no boundary within reach: both programs round to the same number
  EXPECT_EQ(functions::round(Tracked(1.001, 1e-6), bf16).error, 0);
  // the boundary between 1 and 1 + 2^-7 is within reach: off by the spacing
  EXPECT_EQ(functions::round(Tracked(1 + 0x1p-8 - 1e-7, 1e-6), bf16).error, 0x1p-7);
  EXPECT_EQ(functions::round(Tracked(1 + 0x1p-8 + 1e-7, 1e-6), bf16).error, 0x1p-7);
  // float64 may take either side too, but for a number on the boundary itself
  EXPECT_EQ(functions::round(Tracked(1 + 0x1p-8 + 0x1p-52, 0x1p-24), bf16).error, 0x1p25 * 0x1p-7);
  EXPECT_EQ(functions::round(Tracked(1 + 0x1p-8, 0x1p-24), bf16).error, 0x1p-7);
  EXPECT_EQ(functions::round(Tracked(1 + 0x1p-7, 0x1p-24), bf16).error, 0);
  EXPECT_EQ(functions::round_in_float_only(Tracked(1.5, 0), bf16).error, 1.5 * 0x1p-8);
  EXPECT_EQ((Tracked(0) * Tracked(5)).error, 0) << "an exact zero stays exact";
  EXPECT_EQ(functions::scale_exactly(Tracked(3, 1e-7), -2).error, 2e-7);
  EXPECT_EQ(functions::scale_exactly(Tracked(3, 1e-7), -0x1p-3).error, 1e-7 / 8);
}

// Where an error is larger than what the function changes over, its ends bound it, not its slope: 0 times e^1000.
TEST(RunningError, LargeErrorsOfFunctionsThatSaturate) {
  namespace f = functions;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_LE(f::sigmoid(Tracked(1e5, 1e3)).error, 0x1p-21);
  EXPECT_LE(f::sigmoid(Tracked(-1e5, 1e3)).error, 0x1p-149);
  EXPECT_LE(f::exp2(Tracked(-1e5, 2e3)).error, 0x1p-149);
  EXPECT_LE(f::exp(Tracked(-1e5, 2e3)).error, 0x1p-149);
  EXPECT_LE(f::tanh(Tracked(1e5, 1e3)).error, 0x1p-21);
  EXPECT_LE(f::sigmoid_grad(Tracked(1e5, 1e3)).error, 0x1p-149);
  for (double error : {3.0, 1e3, infinity}) {
    EXPECT_GE(f::sigmoid(Tracked(2, error)).error, f::sigmoid(2.0) - f::sigmoid(2.0 - error));
    EXPECT_GE(f::sigmoid_grad(Tracked(2, error)).error, 0.25 - f::sigmoid_grad(2.0));
    EXPECT_GE(f::tanh(Tracked(2, error)).error, std::tanh(2.0) - std::tanh(2.0 - error));
    EXPECT_LE(f::sigmoid(Tracked(2, error)).error, 1);
    EXPECT_LE(f::sigmoid_grad(Tracked(2, error)).error, 0.25);
    EXPECT_LE(f::tanh(Tracked(2, error)).error, 2);
  }
  EXPECT_EQ(f::exp2(Tracked(2, infinity)).error, infinity);
}

// 0.3/(1 + x) of an x that a comparison takes from 2 to 0.25: a slope at 2 says half of it.
TEST(RunningError, LargeErrorsOfDenominators) {
  EXPECT_GE((Tracked(0.3) / Tracked(3, 1.75)).error, 0.3 / 1.25 - 0.1);
  EXPECT_GE(functions::rcp(Tracked(3, 1.75)).error, 1 / 1.25 - 1 / 3.0);
  EXPECT_GE(functions::rsqrt(Tracked(3, 1.75)).error, 1 / std::sqrt(1.25) - 1 / std::sqrt(3));
  EXPECT_GE(functions::log(Tracked(3, 1.75)).error, std::log(3 / 1.25));
  EXPECT_LE((Tracked(0) / Tracked(3, 3)).error, 0);
}

// The largest of numbers that rounding may order otherwise equals none of them for sure; one number equals itself.
TEST(RunningError, Ties) {
  namespace f = functions;
  const Tracked a(2, 1e-6), b(2, 1e-6), c(1.5, 1e-6);
  EXPECT_EQ(f::equal(a, f::max(a, c)).error, 0);
  EXPECT_GE(f::equal(a, f::max(a, b)).error, 1);
  EXPECT_GE(f::equal(b, f::min(a, b)).error, 1);
  EXPECT_EQ(f::equal(Tracked(2), f::max(Tracked(2), Tracked(2))).error, 0) << "inputs, not rounded";
  EXPECT_EQ(f::equal(a, a).error, 0);
  EXPECT_GE(f::equal(a, Tracked(2)).error, 1);
  EXPECT_LE(f::max(a, b).error, 1.01e-6);
}

// Below 2^-126 a product with a power of two is rounded, too, and the number that is rounded is float32's own.
TEST(RunningError, Subnormals) {
  for (float x : {0x1.9p-130f, 0x1.8p-149f, 0x1.ffffffp-127f}) {
    for (int shift : {1, 3, 19}) {
      const float factor = std::ldexp(1.0f, -shift);
      const Tracked z = functions::scale_exactly(Tracked(x), factor);
      EXPECT_LE(std::fabs(double(x * factor) - z.value), z.error) << x << " * 2^-" << shift;
      EXPECT_LE(z.error, 0x1p-150);
    }
  }
  EXPECT_EQ(functions::scale_exactly(Tracked(0), 0.5).error, 0);
  EXPECT_EQ(functions::scale_exactly(Tracked(0x1p-140, 0x1p-148), 4).error, 0x1p-146);
  // 2^-170, that float32 has as 2^-149: half of it is a tie that may round to 0 or up
  const Tracked small(0x1p-170, 0x1p-149);
  EXPECT_GE((small * Tracked(0.75)).error, 0x1p-149 - 0x1p-169) << "0.75 * 2^-149 rounds to 2^-149";
  EXPECT_EQ((Tracked(0, 0) * small).error, 0);
}

/// A random program over token values, row scalars and parameters, in which nothing grows without bound.
std::string random_body(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string body = R"(
    %t0 = kda.input "x" role "input" storage f32 : !T
    %t1 = kda.input "y" role "input" storage bf16 : !T
    %r0 = kda.input "s" role "input" storage f32 : !R
    %p0 = kda.input "w" role "param" storage f32 : !P
    %one = kda.constant 1.0 [] : !K
    %third = kda.constant 0.3333333333333333 [] : !K
)";
  int tokens = 2, scalars = 1;
  auto token = [&] { return fmt::format("%t{}", random() % tokens); };
  auto add = [&](const std::string& text) { body += fmt::format("    %t{} = {}\n", tokens++, text); };
  for (int i = 0; i < 14; ++i) {
    std::string a = token(), b = token(), r = fmt::format("%r{}", random() % scalars);
    switch (random() % 13) {
      case 0:
        add(fmt::format("kda.add {}, {} : (!T, !T) -> !T", a, b));
        break;
      case 1:
        add(fmt::format("kda.mul {}, {} : (!T, !T) -> !T", a, b));
        break;
      case 2:
        add(fmt::format("kda.mul {}, {} : (!T, !R) -> !T", a, r));
        break;
      case 3:
        add(fmt::format("kda.sub {}, %p0 : (!T, !P) -> !T", a));
        break;
      case 4:
        add(fmt::format("kda.tanh {} : (!T) -> !T", a));
        break;
      case 5:
        add(fmt::format("kda.sigmoid {} : (!T) -> !T", a));
        break;
      case 6:
        add(fmt::format("kda.softplus {} : (!T) -> !T", a));
        break;
      case 7:
        add(fmt::format("kda.max {}, {} : (!T, !T) -> !T", a, b));
        break;
      case 8:
        add(fmt::format("kda.mul {}, %third : (!T, !K) -> !T", a));
        break;
      case 9:
        body += fmt::format("    %c{0} = kda.tanh {1} : (!T) -> !T\n", i, a);
        add(fmt::format("kda.exp2 %c{} : (!T) -> !T", i));
        break;
      case 10:
        body += fmt::format("    %g{0} = kda.sigmoid {1} : (!T) -> !T\n", i, a);
        add(fmt::format("kda.scan %g{} over \"t\" exclusive {} reverse {} : (!T) -> !T", i,
                        random() % 2 ? "true" : "false", random() % 2 ? "true" : "false"));
        break;
      case 11:
        body += fmt::format(
            "    %q{0} = kda.tanh {1} : (!T) -> !T\n    %m{0} = kda.mul %q{0}, %q{0} : (!T, !T) -> !T\n", i, a);
        body += fmt::format(
            "    %s{0} = kda.sum %m{0} over [\"d\"] : (!T) -> !R\n    %e{0} = kda.add %s{0}, %one : (!R, !K) -> !R\n",
            i);
        body += fmt::format("    %r{1} = kda.rsqrt %e{0} : (!R) -> !R\n", i, scalars++);
        break;
      case 12:
        add(fmt::format("kda.shift {} over \"t\" amount 1 fill 0.1 : (!T) -> !T", a));
        break;
    }
  }
  body += fmt::format(R"(
    %out = kda.tanh %t{0} : (!T) -> !T
    %v = kda.mul %t{0}, %t{1} : (!T, !T) -> !T
    %dv = kda.sum %v over ["b", "n", "t"] : (!T) -> !P
    %dh = kda.sum %dv over ["d"] : (!P) -> !H
    kda.output %out as "out" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %t{2} as "mid" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %dv as "dv" role "param_gradient" storage f32 axes ["h", "d"] : !P
    kda.output %dh as "dh" role "param_gradient" storage f32 axes ["h"] : !H
)",
                      tokens - 1, tokens - 2, tokens - 3);
  return body;
}

TEST(RunningError, RandomKernelsStayWithinTheBound) {
  Instance instance = Instance::packed_row({37, 0, 5, 20}, 2, 3);
  double log_ratio = 0, largest = 0;
  int tensors = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Kernel kernel(random_body(seed), 16, 24);
    Arrays inputs = draw_inputs(kernel, instance, seed, -2, 2);
    EvaluateOptions exact, single;
    exact.running_error = true;
    single.arithmetic = Arithmetic::f32;
    Result reference = evaluate(kernel, inputs, instance, exact), result = evaluate(kernel, inputs, instance, single);
    Result plain = evaluate(kernel, inputs, instance);
    for (const auto& [name, array] : reference.tensors) {
      EXPECT_EQ(plain.tensors[name].values, array.values) << "the error may not change the value";
      const std::vector<double>& bound = reference.error_bounds[name].values;
      double error2 = 0, bound2 = 0;
      for (size_t i = 0; i < array.values.size(); ++i) {
        double error = std::fabs(result.tensors[name].values[i] - array.values[i]);
        ASSERT_FALSE(!(error <= bound[i]))
            << "seed " << seed << " " << name << "[" << i << "]: " << error << " over " << bound[i];
        error2 += error * error;
        bound2 += bound[i] * bound[i];
      }
      if (error2 == 0) continue;
      double ratio = std::sqrt(bound2 / error2);
      log_ratio += std::log(ratio);
      largest = std::max(largest, ratio);
      ++tensors;
    }
  }
  double typical = std::exp(log_ratio / tensors);
  RecordProperty("bound_over_error", std::to_string(typical));
  printf("bound / error (2-norms): typical %.1f, largest %.0f, %d tensors\n", typical, largest, tensors);
  EXPECT_LT(typical, 60);
}

TEST(RunningError, ObeyedRoundsAgreeUnlessABoundaryIsNear) {
  Kernel kernel(R"(
    %x = kda.input "x" role "input" storage f32 : !T
    %c = kda.scan %x over "t" exclusive false reverse false : (!T) -> !T
    %e = kda.exp2 %c : (!T) -> !T
    %r = kda.round %e to bf16 : (!T) -> !T
    %y = kda.mul %r, %x : (!T, !T) -> !T
    kda.output %y as "y" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
  )",
                16, 64);
  Instance instance = Instance::fixed(1, 64, 4);
  Arrays inputs = draw_inputs(kernel, instance, 2);
  EvaluateOptions exact, single, unrounded;
  exact.running_error = exact.obey_rounds = true;
  unrounded.running_error = true;
  single.arithmetic = Arithmetic::f32;
  Result reference = evaluate(kernel, inputs, instance, exact), result = evaluate(kernel, inputs, instance, single);
  Result straight = evaluate(kernel, inputs, instance, unrounded);
  double small = 0, all = 0;
  for (size_t i = 0; i < reference.tensors["y"].values.size(); ++i) {
    double z = reference.tensors["y"].values[i], got = result.tensors["y"].values[i];
    EXPECT_FALSE(!(std::fabs(got - z) <= reference.error_bounds["y"].values[i]));
    EXPECT_FALSE(!(std::fabs(got - straight.tensors["y"].values[i]) <= straight.error_bounds["y"].values[i]));
    small += reference.error_bounds["y"].values[i] < 0x1p-20 * std::fabs(z);
    all += 1;
  }
  EXPECT_GT(small / all, 0.99) << "few elements lie near a boundary";
}

}  // namespace
}  // namespace kdagen::evaluator
