// SPDX-License-Identifier: Apache-2.0
// Fixed-point sums in the evaluator: float32 is the kernel's integers, float64 the real numbers, and the running error
// covers the difference.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/common/kernels.h"

namespace kdagen::evaluator {
namespace {
using kdagen::testing::Draws;
using kdagen::testing::Kernel;

constexpr int bits = 24, chunk = 16, rows = 21, dim = 2;
constexpr int64_t limit = int64_t(7.25 * (1 << bits));

// e: 2^(58 - cumsum), the other exponents of a decay, and the sums themselves
const char* body = R"(
    %x = kda.input "x" role "input" storage f32 : !T
    %i = kda.to_fixed %x limit 121634816 : (!T) -> !kda.value<[b, n, t, h, d], !kda.fixed<24>>
    %s = kda.scan %i over "t" exclusive false reverse false : (!kda.value<[b, n, t, h, d], !kda.fixed<24>>) -> !kda.value<[b, n, t, h, d], !kda.fixed<24>> loc("tapped"("s.cpp":1:1))
    %after = kda.scan %i over "t" exclusive true reverse true : (!kda.value<[b, n, t, h, d], !kda.fixed<24>>) -> !kda.value<[b, n, t, h, d], !kda.fixed<24>>
    %total = kda.sum %i over ["t"] : (!kda.value<[b, n, t, h, d], !kda.fixed<24>>) -> !kda.value<[b, n, h, d], !kda.fixed<24>>
    %last = kda.last %s over "t" : (!kda.value<[b, n, t, h, d], !kda.fixed<24>>) -> !kda.value<[b, n, h, d], !kda.fixed<24>>
    %n = kda.constant 58.0 [] : !kda.value<[], !kda.fixed<24>>
    %m = kda.neg %s : (!kda.value<[b, n, t, h, d], !kda.fixed<24>>) -> !kda.value<[b, n, t, h, d], !kda.fixed<24>>
    %a = kda.sub %m, %n : (!kda.value<[b, n, t, h, d], !kda.fixed<24>>, !kda.value<[], !kda.fixed<24>>) -> !kda.value<[b, n, t, h, d], !kda.fixed<24>>
    %down = kda.exp2 %a : (!kda.value<[b, n, t, h, d], !kda.fixed<24>>) -> !T
    %r = kda.sub %total, %s : (!kda.value<[b, n, h, d], !kda.fixed<24>>, !kda.value<[b, n, t, h, d], !kda.fixed<24>>) -> !kda.value<[b, n, t, h, d], !kda.fixed<24>>
    %end = kda.exp2 %r : (!kda.value<[b, n, t, h, d], !kda.fixed<24>>) -> !T
    %fs = kda.from_fixed %s : (!kda.value<[b, n, t, h, d], !kda.fixed<24>>) -> !T
    %fa = kda.from_fixed %after : (!kda.value<[b, n, t, h, d], !kda.fixed<24>>) -> !T
    %fl = kda.from_fixed %last : (!kda.value<[b, n, h, d], !kda.fixed<24>>) -> !C
    kda.output %down as "down" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %end as "end" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %fs as "scan" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %fa as "after" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %fl as "last" role "output" storage f32 axes ["b", "n", "h", "d"] : !C
)";

Arrays gates() {
  Draws draws(5);
  Array x;
  for (int i = 0; i < rows * dim; ++i) x.values.push_back(float(draws.uniform(-7.25, 0)));
  return {{"x", x}};
}

/// Sums in units over the rows of the chunk from `from` to `to` (exclusive), by 64-bit integers.
int64_t units(const Arrays& inputs, int column, int from, int to) {
  int64_t sum = 0;
  for (int r = from; r < to; ++r) {
    double scaled = std::ldexp(inputs.at("x").values[r * dim + column], bits);
    sum += std::llrint(std::fmin(std::fmax(scaled, -double(limit)), double(limit)));
  }
  return sum;
}

Result run(const Arrays& inputs, const EvaluateOptions& options) {
  Kernel kernel(body, chunk, dim);
  return evaluate(kernel, inputs, Instance::fixed(1, rows, 1), options);
}

TEST(FixedPointValues, Float32IsTheIntegersOfTheKernel) {
  Arrays inputs = gates();
  inputs["x"].values[3 * dim] = -100;  // beyond the limit
  EvaluateOptions options;
  options.arithmetic = Arithmetic::f32;
  options.taps = {"tapped"};
  Result result = run(inputs, options);
  for (int r = 0; r < rows; ++r)
    for (int column = 0; column < dim; ++column) {
      int first = r / chunk * chunk, end = std::min(first + chunk, rows), at = r * dim + column;
      int64_t scan = units(inputs, column, first, r + 1), after = units(inputs, column, r + 1, end);
      EXPECT_EQ(result.tensors["scan"].values[at], double(std::ldexp(float(scan), -bits)));
      EXPECT_EQ(result.tensors["tapped"].values[at], double(std::ldexp(float(scan), -bits)));
      EXPECT_EQ(result.tensors["after"].values[at], double(std::ldexp(float(after), -bits)));
      EXPECT_EQ(result.tensors["last"].values[r / chunk * dim + column],
                double(std::ldexp(float(units(inputs, column, first, end)), -bits)));
      double end_exact = std::exp2(std::ldexp(double(after), -bits));
      double down_exact = std::exp2(std::ldexp(double(-scan - (int64_t{58} << bits)), -bits));
      EXPECT_NEAR(result.tensors["end"].values[at] / end_exact, 1, 0x1p-22);
      EXPECT_NEAR(result.tensors["down"].values[at] / down_exact, 1, 0x1p-22);
    }
}

TEST(FixedPointValues, Float64IsTheRealFunction) {
  Arrays inputs = gates();
  Result result = run(inputs, {});
  long double sum = 0;
  for (int r = 0; r < chunk; ++r) {
    sum += inputs["x"].values[r * dim];
    EXPECT_NEAR(result.tensors["scan"].values[r * dim], double(sum), 1e-13);
    EXPECT_NEAR(result.tensors["down"].values[r * dim] / std::exp2(double(-sum - 58)), 1, 1e-13);
  }
}

TEST(FixedPointValues, RunningErrorCoversTheRounding) {
  Arrays inputs = gates();
  EvaluateOptions single, tracked;
  single.arithmetic = Arithmetic::f32;
  tracked.running_error = true;
  Result got = run(inputs, single), exact = run(inputs, tracked);
  double largest = 0;
  for (const char* name : {"down", "end", "scan", "after", "last"})
    for (size_t i = 0; i < exact.tensors[name].values.size(); ++i) {
      double error = std::fabs(got.tensors[name].values[i] - exact.tensors[name].values[i]);
      EXPECT_LE(error, exact.error_bounds[name].values[i]) << name << " at " << i;
      largest = std::max(largest, error / exact.error_bounds[name].values[i]);
    }
  EXPECT_GT(largest, 0.1);  // the bound is not idle
  // half a unit for each summand, and the last rounding to a float
  double bound = exact.error_bounds["scan"].values[(chunk - 1) * dim],
         size = std::fabs(exact.tensors["scan"].values[(chunk - 1) * dim]);
  EXPECT_NEAR(bound, chunk * std::ldexp(0.5, -bits) + size * 0x1p-24, size * 1e-12);
}

/// sigmoid(z)*c from the small side: within a unit or so of the real number for gates near their bound, where a float
/// of that size has steps of eight units.
TEST(FixedPointValues, SmallSideOfASigmoid) {
  Kernel kernel(R"(
    %z = kda.input "z" role "input" storage f32 : !R
    %s = kda.sigmoid %z : (!R) -> !R
    %c = kda.constant -7.1875 [] : !K
    %g = kda.mul %s, %c : (!R, !K) -> !R
    %fine = kda.to_fixed %g limit 121634816 {kda.small_side} : (!R) -> !kda.value<[b, n, t, h], !kda.fixed<24>>
    %plain = kda.to_fixed %g limit 121634816 : (!R) -> !kda.value<[b, n, t, h], !kda.fixed<24>>
    %f = kda.from_fixed %fine : (!kda.value<[b, n, t, h], !kda.fixed<24>>) -> !R
    %p = kda.from_fixed %plain : (!kda.value<[b, n, t, h], !kda.fixed<24>>) -> !R
    %one = kda.constant 7.1875 [] : !kda.value<[], !kda.fixed<24>>
    %rest = kda.add %fine, %one : (!kda.value<[b, n, t, h], !kda.fixed<24>>, !kda.value<[], !kda.fixed<24>>) -> !kda.value<[b, n, t, h], !kda.fixed<24>>
    %r = kda.from_fixed %rest : (!kda.value<[b, n, t, h], !kda.fixed<24>>) -> !R
    kda.output %f as "fine" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
    kda.output %p as "plain" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
    kda.output %r as "rest" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
  )",
                64, dim);
  Array z;
  Draws draws(11);
  for (int i = 0; i < 64; ++i) z.values.push_back(float(draws.uniform(i < 32 ? -9 : 3, i < 32 ? 0 : 9)));
  z.values[63] = 0;
  EvaluateOptions single, tracked;
  single.arithmetic = Arithmetic::f32;
  tracked.running_error = true;
  Result got = evaluate(kernel, {{"z", z}}, Instance::fixed(1, 64, 1), single);
  Result exact = evaluate(kernel, {{"z", z}}, Instance::fixed(1, 64, 1), tracked);
  for (int i = 0; i < 64; ++i) {
    long double rest = 7.1875L / (1 + std::exp((long double)z.values[i]));  // 7.1875 * (1 - sigmoid(z))
    double bound = 0.75 * std::ldexp(1.0, -bits) + 4 * 0x1p-24 * double(rest);
    if (z.values[i] >= 0) {
      EXPECT_NEAR(got.tensors["rest"].values[i], double(rest), bound) << z.values[i];
    }
    EXPECT_NEAR(exact.tensors["fine"].values[i], double(rest - 7.1875L), 1e-14);
    for (const char* name : {"fine", "plain", "rest"})
      EXPECT_LE(std::fabs(got.tensors[name].values[i] - exact.tensors[name].values[i]),
                exact.error_bounds[name].values[i])
          << name << " " << z.values[i];
    if (z.values[i] > 3) {
      EXPECT_LT(exact.error_bounds["rest"].values[i], exact.error_bounds["plain"].values[i] / 4);
    }
  }
}

/// A constant between two integers: its own rounding is not added to that of the small side, or every gate near the
/// bound would be off by the same part of a unit.
TEST(FixedPointValues, SmallSideOfASigmoidTimesNoWholeNumberOfUnits) {
  const long double c = -7.213475204444817;  // -121022031.62 units
  Kernel kernel(R"(
    %z = kda.input "z" role "input" storage f32 : !R
    %s = kda.sigmoid %z : (!R) -> !R
    %c = kda.constant -7.213475204444817 [] : !K
    %g = kda.mul %s, %c : (!R, !K) -> !R
    %fine = kda.to_fixed %g limit 121634816 {kda.small_side} : (!R) -> !kda.value<[b, n, t, h], !kda.fixed<24>>
    %seven = kda.constant 7.0 [] : !kda.value<[], !kda.fixed<24>>
    %rest = kda.add %fine, %seven : (!kda.value<[b, n, t, h], !kda.fixed<24>>, !kda.value<[], !kda.fixed<24>>) -> !kda.value<[b, n, t, h], !kda.fixed<24>>
    %r = kda.from_fixed %rest : (!kda.value<[b, n, t, h], !kda.fixed<24>>) -> !R
    kda.output %r as "rest" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
  )",
                64, dim);
  Array z;
  Draws draws(12);
  for (int i = 0; i < 64; ++i) z.values.push_back(float(draws.uniform(3, 24)));
  EvaluateOptions single, tracked;
  single.arithmetic = Arithmetic::f32;
  tracked.running_error = true;
  Result got = evaluate(kernel, {{"z", z}}, Instance::fixed(1, 64, 1), single);
  Result exact = evaluate(kernel, {{"z", z}}, Instance::fixed(1, 64, 1), tracked);
  double mean = 0;
  for (int i = 0; i < 64; ++i) {
    const long double small = c / (1 + std::exp((long double)z.values[i]));
    const double error = std::ldexp(got.tensors["rest"].values[i] - double(c - small + 7), bits);
    EXPECT_LE(std::fabs(error), 0.5 + 4 * std::fabs(double(small))) << z.values[i];
    EXPECT_LE(std::ldexp(std::fabs(error), -bits), exact.error_bounds["rest"].values[i]) << z.values[i];
    mean += error / 64;
  }
  EXPECT_LT(std::fabs(mean), 0.2);  // the constant's own rounding is 0.38 units, in every gate
}

/// As in a kernel, which looks for NaN once a column.
TEST(FixedPointValues, NanReachesEverySumOfItsColumnAndChunk) {
  Arrays inputs = gates();
  inputs["x"].values[5 * dim] = std::numeric_limits<double>::quiet_NaN();
  EvaluateOptions options;
  options.arithmetic = Arithmetic::f32;
  Result result = run(inputs, options);
  for (int r = 0; r < rows; ++r)
    for (int column = 0; column < dim; ++column) {
      bool chunk_has_it = r < chunk && column == 0;
      for (const char* name : {"scan", "after", "end", "down"})
        EXPECT_EQ(std::isnan(result.tensors[name].values[r * dim + column]), chunk_has_it) << name << " " << r;
    }
}

}  // namespace
}  // namespace kdagen::evaluator
