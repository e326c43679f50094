// SPDX-License-Identifier: Apache-2.0
// The fixed-point prelude against numbers of twice the width: conversions, sums, scans, and 2^x.
#include <gtest/gtest.h>

#include <cfloat>
#include <climits>
#include <cmath>
#include <limits>
#include <random>

#include "support.h"

namespace kdagen::emulator::testing {
namespace {

/// The even integer of two that are equally near, by long double arithmetic.
long long nearest_even(long double x) {
  const long double below = std::floor(x), rest = x - below;
  const long long low = static_cast<long long>(below);
  if (rest != 0.5L) return rest < 0.5L ? low : low + 1;
  return low % 2 == 0 ? low : low + 1;
}

struct Converted {
  std::vector<int> units;
  std::vector<float> widened, exp2, exp2_normal;
};

Converted convert(int bits, const std::vector<float>& x, int limit) {
  Converted result{std::vector<int>(x.size()), std::vector<float>(x.size()), std::vector<float>(x.size()),
                   std::vector<float>(x.size())};
  run_words("fixed_point.cu", "convert_" + std::to_string(bits), {1}, {1},
            {word(x.data()), word(result.units.data()), word(result.widened.data()), word(result.exp2.data()),
             word(result.exp2_normal.data()), limit, static_cast<std::int64_t>(x.size())});
  return result;
}

/// Numbers of every size, and every kind of half-way case.
std::vector<float> samples(int bits) {
  std::mt19937 random(bits);
  std::uniform_real_distribution<float> sizes(-40, 9), signs(-1, 1);
  std::vector<float> x = {0.0f, -0.0f, 1e30f, -1e30f, HUGE_VALF, -HUGE_VALF};
  for (int i = 0; i < 4000; ++i) x.push_back(signs(random) * std::exp2(sizes(random)));
  for (int i = -9; i <= 9; ++i) x.push_back(std::ldexp(static_cast<float>(i), -bits - 1));
  return x;
}

TEST(FixedPoint, ConversionsRoundToEvenAndSaturate) {
  for (const int bits : {20, 22, 24, 30}) {
    const int limit = INT_MAX / 3;
    const std::vector<float> x = samples(bits);
    const Converted converted = convert(bits, x, limit);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double scaled = std::fmin(std::fmax(std::ldexp(static_cast<long double>(x[i]), bits), -4e18L), 4e18L);
      const long long expected = std::max<long long>(-limit, std::min<long long>(limit, nearest_even(scaled)));
      EXPECT_EQ(converted.units[i], expected) << bits << " " << x[i];
      EXPECT_EQ(converted.widened[i], std::ldexp(static_cast<float>(converted.units[i]), -bits)) << bits << " " << x[i];
    }
  }
}

TEST(FixedPoint, ExponentialOfWholeAndFraction) {
  for (const int bits : {20, 22, 24, 30}) {
    const std::vector<float> x = samples(bits);
    const Converted converted = convert(bits, x, INT_MAX - 1);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double exact = std::exp2(std::ldexp(static_cast<long double>(converted.units[i]), -bits));
      if (exact > FLT_MAX) {
        EXPECT_TRUE(std::isinf(converted.exp2[i])) << bits << " " << x[i];
      } else {  // 2^-22 relative, subnormals kept
        const long double error = std::fabs(converted.exp2[i] - exact);
        EXPECT_LE(error, std::fmax(exact * 0x1p-22L, 0x1p-149L)) << bits << " " << x[i];
        if (exact >= FLT_MIN) {
          EXPECT_EQ(converted.exp2_normal[i], converted.exp2[i]) << bits << " " << x[i];
        }
      }
    }
  }
}

TEST(FixedPoint, IntegersHaveNoNan) {  // a text carries it beside them
  const Converted converted = convert(24, {std::nanf(""), 1.0f, 3.0f}, 1 << 25);
  EXPECT_EQ(converted.units, (std::vector<int>{0, 1 << 24, 1 << 25}));
  const std::vector<int> a = {5, INT_MAX, 0}, b = {7, -3, INT_MIN + 1};
  std::vector<int> sum(3), difference(3), negated(3);
  run_words("fixed_point.cu", "sums", {1}, {1},
            {word(a.data()), word(b.data()), word(sum.data()), word(difference.data()), word(negated.data()), 3});
  EXPECT_EQ(sum, (std::vector<int>{12, INT_MAX - 3, INT_MIN + 1}));
  EXPECT_EQ(difference[0], -2);
  EXPECT_EQ(difference[2], INT_MAX);
  EXPECT_EQ(negated, (std::vector<int>{-5, -INT_MAX, 0}));
}

TEST(FixedPoint, NearestWholeNumbers) {
  constexpr int one = 1 << 22, half = one / 2;
  const std::vector<int> units = {0,
                                  half,
                                  -half,
                                  half + 1,
                                  -half - 1,
                                  one + half,
                                  -one - half,
                                  -58 * one + half - 1,
                                  400 * one - 1,
                                  -400 * one + 1,
                                  3 * half,
                                  -3 * half - 1};
  const std::vector<float> x = {0.0f,    0.5f, 1.5f,  -2.5f,         -0.5f,  404.0f,
                                -462.0f, 3e9f, -3e9f, std::nanf(""), 1e-30f, -7.75f};
  std::vector<int> whole(12), single(12), four(12 + 4);
  int* const aligned = four.data() + (16 - reinterpret_cast<std::uintptr_t>(four.data()) % 16) % 16 / 4;
  run_words("fixed_point.cu", "wholes", {1}, {1},
            {word(units.data()), word(whole.data()), word(x.data()), word(single.data()), word(aligned), 12});
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(whole[i], static_cast<int>(std::nearbyint(units[i] / double(one))) * one) << units[i];
    const int expected = std::isnan(x[i])        ? 0
                         : x[i] >= 2147483648.0f ? INT_MAX
                         : x[i] < -2147483648.0f ? INT_MIN
                                                 : static_cast<int>(std::nearbyint(x[i]));
    EXPECT_EQ(single[i], expected) << x[i];
    EXPECT_EQ(aligned[i], expected) << x[i];
  }
}

/// The fraction is rounded to 23 bits, half a unit up, also where that makes it 1.
TEST(FixedPoint, LongFractionsAreRounded) {
  const float below_one = 1 - 0x1p-24f;  // in units of 2^-24, all ones
  const Converted at_24 = convert(24, {below_one, 0x1p-24f, 0x1p-23f}, INT_MAX - 1);
  EXPECT_EQ(at_24.exp2, (std::vector<float>{2.0f, std::exp2(1 + 0x1p-23f) / 2, std::exp2(1 + 0x1p-23f) / 2}));
  EXPECT_EQ(at_24.exp2_normal, at_24.exp2);
  const Converted at_30 = convert(30, {below_one, 0x1p-24f, 0x1p-25f, -0x1p-24f, -0x1p-25f}, INT_MAX - 1);
  EXPECT_EQ(at_30.exp2, (std::vector<float>{2.0f, std::exp2(1 + 0x1p-23f) / 2, 1.0f, 1.0f, 1.0f}));
  EXPECT_EQ(at_30.exp2_normal, at_30.exp2);
}

TEST(FixedPoint, ScansOfAnyNumberOfRows) {
  std::mt19937 random(3);
  for (int rows = 1; rows <= 32; ++rows) {
    std::vector<int> x(32), inclusive(32), exclusive(32), reverse(32), reverse_exclusive(32), total(32);
    for (int& element : x) element = static_cast<int>(random() % 100000001) - 50000000;
    run_words("fixed_point.cu", "scans", {1}, {32},
              {word(x.data()), word(inclusive.data()), word(exclusive.data()), word(reverse.data()),
               word(reverse_exclusive.data()), word(total.data()), rows});
    long long all = 0;
    for (int r = 0; r < rows; ++r) all += x[r];
    for (int r = 0; r < 32; ++r) {
      long long before = 0, after = 0;
      for (int s = 0; s < rows; ++s) (s < r ? before : after) += s == r ? 0 : x[s];
      EXPECT_EQ(total[r], all);
      EXPECT_EQ(inclusive[r], r < rows ? before + x[r] : 0) << rows << " " << r;
      EXPECT_EQ(exclusive[r], r < rows ? before : 0) << rows << " " << r;
      EXPECT_EQ(reverse[r], r < rows ? after + x[r] : 0) << rows << " " << r;
      EXPECT_EQ(reverse_exclusive[r], r < rows ? after : 0) << rows << " " << r;
    }
  }
}

}  // namespace
}  // namespace kdagen::emulator::testing
