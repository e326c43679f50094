// SPDX-License-Identifier: Apache-2.0
// bf16 and fp16: every stored value widens to its number, and floats on every side of every rounding border go to the
// nearest value, ties to the even one. The oracle knows the formats by sign, exponent and fraction, and rounds by
// search.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "support.h"

namespace kdagen::emulator::testing {
namespace {

struct Format {
  const char* entry;
  int exponent_bits, fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  unsigned infinity() const { return ((1u << exponent_bits) - 1) << fraction_bits; }

  /// The number of a bit pattern without sign up to infinity's, which stands for the next power of two.
  double number(unsigned bits) const {
    const int exponent = static_cast<int>(bits >> fraction_bits);
    const int fraction = static_cast<int>(bits & ((1u << fraction_bits) - 1));
    if (exponent == 0) return std::ldexp(fraction, 1 - bias() - fraction_bits);
    return std::ldexp(fraction + (1 << fraction_bits), exponent - bias() - fraction_bits);
  }

  std::uint16_t rounded(float x) const {
    if (std::isnan(x)) return 0x7fff;
    const double magnitude = std::abs(static_cast<double>(x));
    unsigned below = 0, above = infinity();
    while (above - below > 1) {
      const unsigned middle = (below + above) / 2;
      (number(middle) <= magnitude ? below : above) = middle;
    }
    const double down = magnitude - number(below), up = number(above) - magnitude;
    const bool go_up = up < down || (up == down && below % 2 == 1);
    return static_cast<std::uint16_t>((go_up ? above : below) | (std::signbit(x) ? 0x8000 : 0));
  }
};

/// All stored values, the midpoints between neighbours, and the floats beside both, with both signs.
std::vector<float> borders(const Format& format) {
  std::vector<float> values;
  for (unsigned bits = 0; bits < format.infinity(); ++bits) {
    const double here = format.number(bits), middle = (here + format.number(bits + 1)) / 2;
    for (const double center : {here, middle}) {
      const float x = static_cast<float>(center);
      for (const float y : {std::nextafter(x, 0.0f), x, std::nextafter(x, HUGE_VALF)})
        values.insert(values.end(), {y, -y});
    }
  }
  return values;
}

std::vector<float> test_floats(const Format& format) {
  std::vector<float> values = borders(format);
  const auto limits = std::numeric_limits<float>();
  for (const float x : {limits.infinity(), limits.max(), limits.min(), limits.denorm_min(), limits.quiet_NaN()})
    values.insert(values.end(), {x, -x});
  for (const std::uint32_t nan : {0x7f800001u, 0x7f80ffffu, 0x7f810000u, 0xffffffffu})
    values.push_back(std::bit_cast<float>(nan));
  std::minstd_rand random(1);
  for (int i = 0; i < 100000; ++i) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random() * 2u)));
  return values;
}

class Conversion : public ::testing::TestWithParam<Format> {};

TEST_P(Conversion, RoundsToNearestEvenAndWidensExactly) {
  const Format& format = GetParam();
  const std::vector<float> in = test_floats(format);
  std::vector<std::uint16_t> out(in.size()), stored(65536);
  std::vector<float> widened(stored.size());
  for (unsigned bits = 0; bits < 65536; ++bits) stored[bits] = static_cast<std::uint16_t>(bits);
  run_words("prelude.cu", format.entry, {1}, {1},
            {word(in.data()), word(out.data()), word(stored.data()), word(widened.data()),
             static_cast<std::int64_t>(in.size()), static_cast<std::int64_t>(stored.size())});
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], format.rounded(in[i])) << std::hexfloat << in[i];
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const unsigned magnitude = bits & 0x7fffu;
    if (magnitude > format.infinity()) {
      ASSERT_TRUE(std::isnan(widened[bits])) << bits;
      continue;
    }
    const double number = magnitude == format.infinity() ? HUGE_VAL : format.number(magnitude);
    ASSERT_EQ(widened[bits], bits & 0x8000u ? -number : number) << bits;
    ASSERT_EQ(std::signbit(widened[bits]), bits >= 0x8000u) << bits;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Conversion,
                         ::testing::Values(Format{"convert_bf16", 8, 7}, Format{"convert_fp16", 5, 10}),
                         [](const auto& info) { return std::string(info.param.entry + 8); });

TEST(Conversion, SignedCharWidens) {
  std::vector<signed char> stored(256);
  for (int i = 0; i < 256; ++i) stored[i] = static_cast<signed char>(i - 128);
  std::vector<float> widened(256);
  run_words("prelude.cu", "convert_i8", {1}, {1}, {0, 0, word(stored.data()), word(widened.data()), 0, 256});
  for (int i = 0; i < 256; ++i) EXPECT_EQ(widened[i], static_cast<float>(i - 128));
}

}  // namespace
}  // namespace kdagen::emulator::testing
