// SPDX-License-Identifier: Apache-2.0
// kda.boundary, kda.rint, and tensors with a row of each sub-chunk, against sums of the test's own.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/common/kernels.h"

namespace kdagen::evaluator {
namespace {
using kdagen::testing::Draws;
using kdagen::testing::Kernel;

constexpr int chunk = 40, dim = 2;  // three sub-chunks of 16, the last of 8 rows
const std::vector<int64_t> lengths = {5, 0, 97, 16};

const char* floats = R"(
    %x = kda.input "x" role "input" storage f32 : !T
    %s = kda.scan %x over "t" exclusive false reverse false : (!T) -> !T
    %b = kda.boundary %s over "t" every 16 : (!T) -> !T
    %r = kda.rint %b : (!T) -> !T
    kda.output %b as "boundary" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %r as "anchor" role "output" storage i32 axes ["b", "n", "t", "h", "d"] {every = 16 : i64} : !T
)";
const char* integers = R"(
    %x = kda.input "x" role "input" storage f32 : !T
    %i = kda.to_fixed %x limit 121634816 : (!T) -> !kda.value<[b, n, t, h, d], !kda.fixed<22>>
    %s = kda.scan %i over "t" exclusive false reverse false : (!kda.value<[b, n, t, h, d], !kda.fixed<22>>) -> !kda.value<[b, n, t, h, d], !kda.fixed<22>>
    %b = kda.boundary %s over "t" every 16 : (!kda.value<[b, n, t, h, d], !kda.fixed<22>>) -> !kda.value<[b, n, t, h, d], !kda.fixed<22>>
    %n = kda.rint %b : (!kda.value<[b, n, t, h, d], !kda.fixed<22>>) -> !kda.value<[b, n, t, h, d], !kda.fixed<22>>
    %fb = kda.from_fixed %b : (!kda.value<[b, n, t, h, d], !kda.fixed<22>>) -> !T
    %fn = kda.from_fixed %n : (!kda.value<[b, n, t, h, d], !kda.fixed<22>>) -> !T
    kda.output %fb as "boundary" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !T
    kda.output %fn as "anchor" role "output" storage i32 axes ["b", "n", "t", "h", "d"] {every = 16 : i64} : !T
)";

/// Multiples of 1/4: sums are exact in every arithmetic, and some are halves.
Arrays gates(int64_t rows) {
  Draws draws(5);
  Array x;
  for (int64_t i = 0; i < rows * dim; ++i) x.values.push_back(std::rint(draws.uniform(-24, 2)) / 4);
  return {{"x", x}};
}

TEST(Anchors, BoundariesOfRaggedTiles) {
  const Instance instance = Instance::packed_row(lengths, 1, 3);
  const Arrays inputs = gates(instance.rows());
  for (const char* body : {floats, integers})
    for (Arithmetic arithmetic : {Arithmetic::f64, Arithmetic::f32}) {
      Kernel kernel(body, chunk, dim);
      EvaluateOptions options;
      options.arithmetic = arithmetic;
      options.store_rounding = true;
      const Result result = evaluate(kernel, inputs, instance, options);
      const Array &boundary = result.tensors.at("boundary"), &anchor = result.tensors.at("anchor");
      EXPECT_EQ(anchor.shape, (std::vector<int64_t>{instance.capacity(chunk), 3, 1, dim}));
      std::vector<double> expected(anchor.values.size(), 0.0);
      int64_t first = 0, tile = 0;
      bool half = false;
      for (int64_t length : lengths) {
        for (int64_t begin = 0; begin < length; begin += chunk, ++tile)
          for (int d = 0; d < dim; ++d) {
            double sum = 0, before = 0;
            for (int64_t r = 0; r < std::min<int64_t>(chunk, length - begin); ++r) {
              if (r % 16 == 0) {
                before = sum;
                half |= before - std::floor(before) == 0.5;
                expected[(tile * 3 + r / 16) * dim + d] = std::nearbyint(before);
              }
              sum += inputs.at("x").values[(first + begin + r) * dim + d];
              EXPECT_EQ(boundary.values[(first + begin + r) * dim + d], before) << "row " << r << " of tile " << tile;
            }
          }
        first += length;
      }
      EXPECT_EQ(anchor.values, expected);
      EXPECT_TRUE(half) << "a tie should be among them";
    }
}

TEST(Anchors, TensorsSayWhatTheyAre) {
  Kernel kernel(floats, chunk, dim);
  for (const TensorInfo& info : tensors_of(kernel, Instance::fixed(1, 41, 3))) {
    if (info.name != "anchor") continue;
    EXPECT_EQ(info.dtype, "i32");
    EXPECT_EQ(info.every, 16);
    EXPECT_TRUE(info.per_chunk);
    EXPECT_EQ(info.shape, (std::vector<int64_t>{2, 3, 3, dim}));
    return;
  }
  FAIL() << "no tensor anchor";
}

// Numbers that are stored with an anchor are compared as if both programs had the same: its choice is no error.
TEST(Anchors, AnIntegerHasNoRunningError) {
  EvaluateOptions tracked;
  tracked.running_error = true;
  Kernel kernel(floats, chunk, dim);
  Arrays inputs = gates(60);
  for (double& x : inputs.at("x").values) x += 1e-3;
  const Result result = evaluate(kernel, inputs, Instance::fixed(1, 60, 1), tracked);
  for (double error : result.error_bounds.at("anchor").values) EXPECT_EQ(error, 0);
  double largest = 0;
  for (double error : result.error_bounds.at("boundary").values) largest = std::max(largest, error);
  EXPECT_GT(largest, 0);
}

}  // namespace
}  // namespace kdagen::evaluator
