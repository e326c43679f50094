// SPDX-License-Identifier: Apache-2.0
// A fault-free kernel computes the right numbers and stays silent in every thread order.
#include <gmock/gmock.h>

#include <cmath>

#include "support.h"

namespace kdagen::emulator::testing {
namespace {

using ::testing::IsEmpty;

double bf16_value(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// y by the sample's formula, in double precision.
std::vector<double> expected_y(const Sample& sample) {
  std::vector<double> y(sample.y.size());
  for (int t = 0; t < sample.tokens; ++t) {
    double squares = 0.0;
    for (int d = 0; d < 128; ++d) squares += std::pow(bf16_value(sample.x[t * 128 + d]), 2);
    for (int d = 0; d < 128; ++d) {
      const double before = t % 8 == 0 ? 0.0 : y[(t - 1) * 128 + d];
      y[t * 128 + d] = before + 0.75 * bf16_value(sample.x[t * 128 + d]) / std::sqrt(squares + 1.0);
    }
  }
  return y;
}

void expect_right(const Sample& sample) {
  const std::vector<double> y = expected_y(sample);
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_TRUE(std::abs(sample.y[i] - y[i]) <= 1e-6) << i;
  for (int n = 0; n < sample.tiles; ++n) {
    const int t = std::min(n * 8 + 7, sample.tokens - 1);
    double total = 0.0;
    for (int d = 0; d < 128; ++d) {
      total += y[t * 128 + d];
      const double rounding = std::abs(y[t * 128 + d]) / 256 + 1e-6;
      ASSERT_TRUE(std::abs(bf16_value(sample.last[n * 128 + d]) - y[t * 128 + d]) <= rounding);
    }
    ASSERT_TRUE(std::abs(sample.total[n] - total) <= 1e-5) << n;
  }
}

TEST(Sample, RightWithoutChecks) {
  Sample sample(45);
  ASSERT_THAT(sample.run("none", {.check = false}), IsEmpty());
  expect_right(sample);
}

TEST(Sample, SilentAndBitEqualInTenThreadOrders) {
  Sample natural(45);
  ASSERT_THAT(natural.run("none"), IsEmpty());
  expect_right(natural);
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Sample shuffled(45);
    ASSERT_THAT(shuffled.run("none", {.order_seed = seed}), IsEmpty()) << "seed " << seed;
    EXPECT_EQ(shuffled.y.copy(), natural.y.copy());
    EXPECT_EQ(shuffled.last.copy(), natural.last.copy());
    EXPECT_EQ(shuffled.total.copy(), natural.total.copy());
  }
}

}  // namespace
}  // namespace kdagen::emulator::testing
