// SPDX-License-Identifier: Apache-2.0
// Worked values, tails, empty sequences, dead rows, sections, taps and errors.
#include <cmath>

#include <gtest/gtest.h>
#include <kdagen/error.h>

#include "tests/common/kernels.h"

namespace kdagen::evaluator {
namespace {
using kdagen::testing::draw_inputs;
using kdagen::testing::Kernel;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_FALSE(!(std::fabs(got[i] - expected[i]) <= tolerance))
        << "at " << i << ": " << got[i] << " for " << expected[i];
}

TEST(Evaluator, NormOf34AndItsGradient) {
  Kernel kernel(R"(
    %x = kda.input "x" role "input" storage f32 : !T
    %dy = kda.input "dy" role "cotangent" storage f32 : !T
    %xx = kda.mul %x, %x : (!T, !T) -> !T
    %s = kda.sum %xx over ["d"] : (!T) -> !R
    %inv = kda.rsqrt %s : (!R) -> !R
    %y = kda.mul %x, %inv : (!T, !R) -> !T
    %p = kda.mul %dy, %y : (!T, !T) -> !T
    %dot = kda.sum %p over ["d"] : (!T) -> !R
    %q = kda.mul %y, %dot : (!T, !R) -> !T
    %r = kda.sub %dy, %q : (!T, !T) -> !T
    %dx = kda.mul %r, %inv : (!T, !R) -> !T
    kda.output %y as "y" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !T
  )",
                8, 2);
  Arrays inputs{{"x", {{3, 4}, {}}}, {"dy", {{1, 0}, {}}}};
  Result result = evaluate(kernel, inputs, Instance::fixed(1, 1, 1));
  expect_near(result.tensors["y"].values, {.6, .8}, 1e-15);
  expect_near(result.tensors["dx"].values, {.128, -.096}, 1e-15);
  EXPECT_EQ(result.tensors["y"].shape, (std::vector<int64_t>{1, 1, 2}));
}

TEST(Evaluator, ScansOfOneChunk) {
  Kernel kernel(R"(
    %x = kda.input "x" role "input" storage f32 : !R
    %f = kda.scan %x over "t" exclusive false reverse false : (!R) -> !R
    %fe = kda.scan %x over "t" exclusive true reverse false : (!R) -> !R
    %r = kda.scan %x over "t" exclusive false reverse true : (!R) -> !R
    %re = kda.scan %x over "t" exclusive true reverse true : (!R) -> !R
    kda.output %f as "f" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
    kda.output %fe as "fe" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
    kda.output %r as "r" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
    kda.output %re as "re" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
  )",
                16, 2);
  Result result = evaluate(kernel, {{"x", {{2, 5, 1, 3}, {}}}}, Instance::fixed(1, 4, 1));
  expect_near(result.tensors["r"].values, {11, 9, 4, 3}, 0);
  expect_near(result.tensors["re"].values, {9, 4, 3, 0}, 0);
  expect_near(result.tensors["f"].values, {2, 7, 8, 11}, 0);
  expect_near(result.tensors["fe"].values, {0, 2, 7, 8}, 0);
}

TEST(Evaluator, SigmoidsAtSaturation) {
  Kernel kernel(R"(
    %x = kda.input "x" role "input" storage f32 : !R
    %s = kda.sigmoid %x : (!R) -> !R
    %g = kda.sigmoid_grad %x : (!R) -> !R
    %p = kda.softplus %x : (!R) -> !R
    kda.output %s as "s" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
    kda.output %g as "g" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
    kda.output %p as "p" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
  )",
                8, 2);
  Arrays inputs{{"x", {{0, 40, -40, 2}, {}}}};
  for (Arithmetic arithmetic : {Arithmetic::f64, Arithmetic::f32}) {
    EvaluateOptions options;
    options.arithmetic = arithmetic;
    double u = arithmetic == Arithmetic::f64 ? 1e-15 : 3e-7;
    Result result = evaluate(kernel, inputs, Instance::fixed(1, 4, 1), options);
    double e = std::exp(-40.0), e2 = std::exp(-2.0);
    expect_near(result.tensors["s"].values, {.5, 1 - e, e, 1 / (1 + e2)}, u);
    EXPECT_NEAR(result.tensors["g"].values[1] / e, 1, 20 * u);
    EXPECT_NEAR(result.tensors["g"].values[2] / e, 1, 20 * u);
    EXPECT_NEAR(result.tensors["s"].values[2] / e, 1, 20 * u);
    EXPECT_NEAR(result.tensors["g"].values[3] * (1 + e2) * (1 + e2) / e2, 1, 20 * u);
    expect_near(result.tensors["p"].values, {std::log(2.0), 40, e, 2 + std::log1p(e2)}, 40 * u);
  }
}

const char* tail_body = R"(
    %x = kda.input "x" role "input" storage f32 : !T
    %c = kda.input "c" role "input" storage f32 : !C
    %f = kda.scan %x over "t" exclusive false reverse true : (!T) -> !T
    %l = kda.last %x over "t" : (!T) -> !C
    %at = kda.at_last %c over "t" : (!C) -> !T
    %m = kda.max_reduce %x over ["t"] : (!T) -> !C
    %up = kda.shift %x over "t" amount -1 fill 7.0 : (!T) -> !T
    %total = kda.sum %x over ["t"] : (!T) -> !C
    %one = kda.constant 1.0 [] : !K
    %ones = kda.broadcast %one : (!K) -> !T
    %count = kda.sum %ones over ["b", "n", "t"] : (!T) -> !P
    kda.output %f as "f" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %l as "l" role "output" storage f32 axes ["b", "n", "h", "d"] : !C
    kda.output %at as "at" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %m as "m" role "output" storage f32 axes ["b", "n", "h", "d"] : !C
    kda.output %up as "up" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %total as "total" role "output" storage f32 axes ["b", "n", "h", "d"] : !C
    kda.output %count as "count" role "param_gradient" storage f32 axes ["h", "d"] : !P
)";

TEST(Evaluator, RaggedTailsEmptySequencesAndDeadRows) {
  Kernel kernel(tail_body, 4, 2);
  // sequences of 5, 0, 3 rows, then 6 dead rows; tiles: rows 0-3, 4, 5-7; capacity ceil(14/4)+3 = 7
  Instance instance = Instance::packed_row({5, 0, 3}, 1, 6);
  Array x, c;
  for (int row = 0; row < 14; ++row)
    for (int column = 0; column < 2; ++column) x.values.push_back(row < 8 ? row + 10 * column + 1 : nan);
  for (int tile = 0; tile < 7; ++tile)
    for (int column = 0; column < 2; ++column) c.values.push_back(tile < 3 ? 100 + tile : nan);
  Result result = evaluate(kernel, {{"x", x}, {"c", c}}, instance);
  auto column0 = [&](const std::string& name) {
    std::vector<double> values;
    for (size_t i = 0; i < result.tensors[name].values.size(); i += 2) values.push_back(result.tensors[name].values[i]);
    return values;
  };
  expect_near(column0("f"), {10, 9, 7, 4, 5, 21, 15, 8, 0, 0, 0, 0, 0, 0}, 0);
  expect_near(column0("l"), {4, 5, 8, 0, 0, 0, 0}, 0);
  expect_near(column0("at"), {0, 0, 0, 100, 101, 0, 0, 102, 0, 0, 0, 0, 0, 0}, 0);
  expect_near(column0("m"), {4, 5, 8, 0, 0, 0, 0}, 0);
  expect_near(column0("up"), {2, 3, 4, 7, 7, 7, 8, 7, 0, 0, 0, 0, 0, 0}, 0);
  expect_near(column0("total"), {10, 5, 21, 0, 0, 0, 0}, 0);
  expect_near(column0("count"), {8}, 0);
  EXPECT_EQ(result.tensors["l"].shape, (std::vector<int64_t>{7, 1, 2}));
  EXPECT_EQ(result.tensors["f"].shape, (std::vector<int64_t>{14, 1, 2}));
}

TEST(Evaluator, PackedEqualsEachSequenceAlone) {
  Kernel kernel(tail_body, 4, 2);
  Instance packed = Instance::packed_row({6, 1, 0, 9}, 3);
  Arrays inputs = draw_inputs(kernel, packed, 5);
  Result together = evaluate(kernel, inputs, packed);
  int64_t row = 0, tile = 0;
  for (int64_t length : packed.seqlens) {
    Instance alone = Instance::fixed(1, length, 3);
    int64_t tiles = (length + 3) / 4;
    Arrays part{{"x", {{inputs["x"].values.begin() + row * 6, inputs["x"].values.begin() + (row + length) * 6}, {}}},
                {"c", {{inputs["c"].values.begin() + tile * 6, inputs["c"].values.begin() + (tile + tiles) * 6}, {}}}};
    Result result = evaluate(kernel, part, alone);
    for (const char* name : {"f", "at", "up"})
      for (int64_t i = 0; i < length * 6; ++i)
        EXPECT_EQ(result.tensors[name].values[i], together.tensors[name].values[row * 6 + i]);
    for (const char* name : {"l", "m", "total"})
      for (int64_t i = 0; i < tiles * 6; ++i)
        EXPECT_EQ(result.tensors[name].values[i], together.tensors[name].values[tile * 6 + i]);
    row += length;
    tile += tiles;
  }
}

const char* parameter_body = R"(
    %x = kda.input "x" role "input" storage bf16 : !T
    %a_log = kda.input "a_log" role "param" storage f32 : !H
    %a = kda.exp %a_log : (!H) -> !H loc("a")
    %y = kda.mul %a, %x : (!H, !T) -> !T loc("inner")
    %rows = kda.sum %y over ["t"] : (!T) -> !C
    %dw = kda.sum %rows over ["b", "n"] : (!C) -> !P
    %dh = kda.sum %dw over ["d"] : (!P) -> !H
    %da = kda.mul %dh, %a : (!H, !H) -> !H
    %all = kda.sum %y over ["b", "n", "t", "h", "d"] : (!T) -> !K
    kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %dw as "dw" role "param_gradient" storage f32 axes ["h", "d"] : !P
    kda.output %da as "da" role "param_gradient" storage f32 axes ["h"] : !H
    kda.output %all as "all" role "param_gradient" storage f32 axes [] : !K
)";

TEST(Evaluator, ParameterSumsAndEpilogue) {
  Kernel kernel(parameter_body, 16, 12);
  Instance instance = Instance::packed_row({70, 0, 33, 150}, 3, 9);
  Arrays inputs = draw_inputs(kernel, instance, 3);
  EvaluateOptions options;
  options.round_inputs = false;
  options.taps = {"a", "inner"};
  options.term_norms = true;
  Result result = evaluate(kernel, inputs, instance, options);
  double all = 0, all_squares = 0;
  for (int h = 0; h < 3; ++h) {
    double a = std::exp(inputs["a_log"].values[h]), head = 0, head_squares = 0;
    EXPECT_NEAR(result.tensors["a"].values[h], a, 1e-15);
    for (int d = 0; d < 12; ++d) {
      double sum = 0, squares = 0;
      for (int row = 0; row < 253; ++row) {
        double term = a * inputs["x"].values[(row * 3 + h) * 12 + d];
        sum += term, squares += term * term;
      }
      EXPECT_NEAR(result.term_norms["dw"].values[h * 12 + d], std::sqrt(squares), 1e-12);
      head_squares += squares;
      EXPECT_NEAR(result.tensors["dw"].values[h * 12 + d], sum, 1e-12);
      head += sum;
    }
    EXPECT_NEAR(result.tensors["da"].values[h], head * a, 1e-11);
    EXPECT_NEAR(result.term_norms["da"].values[h], std::sqrt(head_squares) * a, 1e-11);
    all += head, all_squares += head_squares;
  }
  EXPECT_NEAR(result.tensors["all"].values[0], all, 1e-11);
  EXPECT_NEAR(result.term_norms["all"].values[0], std::sqrt(all_squares), 1e-11);
  EXPECT_EQ(result.term_norms.count("y"), 0u);
  EXPECT_EQ(result.tensors["inner"].values, result.tensors["y"].values);
}

TEST(Evaluator, StorageRounding) {
  Kernel kernel(parameter_body, 8, 4);
  Instance instance = Instance::fixed(2, 3, 1);
  Arrays inputs = draw_inputs(kernel, instance, 8);
  inputs["a_log"].values = {0};
  inputs["x"].values[0] = 1 + 0x1p-8;      // half way between two bf16 numbers: to even
  inputs["x"].values[1] = 1 + 3 * 0x1p-8;  // and up
  inputs["x"].values[2] = 0x1.8p-133;      // subnormal, half way: to even
  inputs["x"].values[3] = -0x1.fffp127;    // overflows
  Result result = evaluate(kernel, inputs, instance);
  EXPECT_EQ(result.tensors["y"].values[0], 1);
  EXPECT_EQ(result.tensors["y"].values[1], 1 + 0x1p-6);
  EXPECT_EQ(result.tensors["y"].values[2], 0x1p-132);
  EXPECT_EQ(result.tensors["y"].values[3], -std::numeric_limits<double>::infinity());
}

TEST(Evaluator, Errors) {
  Kernel kernel(parameter_body, 8, 4);
  Instance instance = Instance::fixed(1, 3, 1);
  Arrays inputs = draw_inputs(kernel, instance, 8);
  Arrays missing = inputs, damaged = inputs;
  missing.erase("x");
  damaged["x"].values.pop_back();
  EXPECT_THROW(evaluate(kernel, missing, instance), UsageError);
  EXPECT_THROW(evaluate(kernel, damaged, instance), UsageError);
  EvaluateOptions options;
  options.taps = {"nowhere"};
  EXPECT_THROW(evaluate(kernel, inputs, instance, options), UsageError);
  Instance overfull = Instance::packed_row({2, 2}, 1);
  overfull.tokens = 3;
  EXPECT_THROW(evaluate(kernel, inputs, overfull), UsageError);
  Kernel circular(R"(
    %x = kda.input "x" role "input" storage f32 : !T
    %s = kda.sum %x over ["b", "n", "t"] : (!T) -> !P
    %y = kda.sub %x, %s : (!T, !P) -> !T
    kda.output %y as "y" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
  )",
                  8, 4);
  EXPECT_THROW(evaluate(circular, inputs, instance), SpecError);
}

}  // namespace
}  // namespace kdagen::evaluator
