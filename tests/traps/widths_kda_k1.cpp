// SPDX-License-Identifier: Apache-2.0
// Rows of every width: T047 and T048 of docs/traps.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/kda_reference.h"

using namespace kdagen;
using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Widths : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Dim, Widths, ::testing::Values(16, 32, 48, 64, 80, 96, 100, 112, 128, 160, 192, 256),
                         ::testing::PrintToStringParamName());

TEST_P(Widths, T047OutputsAndGradients) {
  const KdaConstants constants{16, GetParam(), -5};
  EmulatedProgram program("kda_k1", constants.settings({{"out", "f32"}, {"grads", "f32"}}));
  Call call(program, {1, 65, 2});
  // The backward of rounded inputs; of cotangents so large that every row's is felt.
  call.set("dk_i", [](const At& at) { return std::sin(double(at.row * 5 + at.d * 3 + at.h)) / 64; });
  call.forward().backward();
  for (const auto& [name, reference] : kda_reference(call, {65}, constants)) {
    const double difference = relative_rms(values_of(call.tensor(name)), reference);
    EXPECT_LE(difference, 2e-5) << name;
  }
}

TEST(Widths, T047OthersAreRefused) {
  for (const char* dim : {"127", "8", "260", "0", "-16"}) try {
      EmulatedProgram program("kda_k1", {{"dim", dim}});
      ADD_FAILURE() << dim << " passed";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("dim"), HasSubstr("multiple of 4 from 16 to 256")));
    }
}

// Sums over a row by more or fewer lanes than it has columns.
TEST(Widths, T048SumsOfSquaresByAnyNumberOfThreads) {
  for (const int dim : {96, 100, 120})
    for (const char* threads : {"128", "512"}) {
      SCOPED_TRACE(fmt::format("dim {} threads {}", dim, threads));
      EmulatedProgram program(
          [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
            Value x = s.input("x", {t, h, d});
            s.output("y", sum(x * x, d));
          },
          with(float_tensors, {{"dim", std::to_string(dim)}, {"schedule", fmt::format("threads={}", threads)}}));
      Call call(program, {1, 37, 2});
      call.forward().backward();
      for (int64_t row = 0; row < 37; ++row)
        for (int64_t h = 0; h < 2; ++h) {
          double squares = 0;
          for (int64_t d = 0; d < dim; ++d) {
            const double x = call("x", row, h, d);
            squares += x * x;
            ASSERT_NEAR(call("dx", row, h, d), 2 * x * call("dy", row, h), 3e-7 * std::abs(x)) << row;
          }
          ASSERT_NEAR(call("y", row, h), squares, 1e-6 * squares) << row;
        }
    }
}
