// SPDX-License-Identifier: Apache-2.0
#include "runtime/dtype.h"

#include <bit>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

using namespace kdagen::runtime;

namespace {

std::uint16_t encode(DType dtype, double value) {
  std::uint16_t bits;
  store_from_double(dtype, &bits, value);
  return bits;
}

}  // namespace

// For floats, bf16 is the upper half with the usual carry trick: an oracle that shares nothing with the code.
TEST(DType, Bf16OfFloatsAgreesWithTheBitTrick) {
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) {
    const std::uint32_t bits = random();
    const float value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    const auto expected = static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    ASSERT_EQ(encode(DType::bf16, value), expected) << value;
  }
}

TEST(DType, EveryHalfRoundTrips) {
  for (const DType dtype : {DType::bf16, DType::fp16})
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const auto stored = static_cast<std::uint16_t>(bits);
      const double value = load_as_double(dtype, &stored);
      if (std::isnan(value))
        EXPECT_EQ(encode(dtype, value), 0x7fff);
      else
        ASSERT_EQ(encode(dtype, value), stored) << bits;
    }
}

TEST(DType, TiesAndLimitsOfFp16) {
  EXPECT_EQ(encode(DType::fp16, 1.0), 0x3c00);
  EXPECT_EQ(encode(DType::fp16, 1.0 + 0x1p-11), 0x3c00);            // tie to even
  EXPECT_EQ(encode(DType::fp16, 1.0 + 3 * 0x1p-11), 0x3c02);        // tie to even, upwards
  EXPECT_EQ(encode(DType::fp16, 1.0 + 0x1p-11 + 0x1p-40), 0x3c01);  // above the tie, beyond a float's reach
  EXPECT_EQ(encode(DType::fp16, 65519.0), 0x7bff);
  EXPECT_EQ(encode(DType::fp16, 65520.0), 0x7c00);
  EXPECT_EQ(encode(DType::fp16, -0x1p-24), 0x8001);
  EXPECT_EQ(encode(DType::fp16, 0x1p-25), 0x0000);
  EXPECT_EQ(encode(DType::fp16, -0.0), 0x8000);
}

TEST(DType, IntegersSaturate) {
  std::int8_t small;
  store_from_double(DType::i8, &small, 200.0);
  EXPECT_EQ(small, 127);
  store_from_double(DType::i8, &small, -1e300);
  EXPECT_EQ(small, -128);
  std::int64_t large;
  store_from_double(DType::i64, &large, 0x1p63);
  EXPECT_EQ(large, std::numeric_limits<std::int64_t>::max());
  store_from_double(DType::i64, &large, std::nan(""));
  EXPECT_EQ(large, 0);
}

TEST(DType, NamesAndSizes) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::fp16, DType::i64, DType::i32, DType::i8})
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  EXPECT_EQ(size_of(DType::bf16), 2);
  EXPECT_EQ(size_of(DType::i64), 8);
  EXPECT_FALSE(dtype_from_name("half"));
}
