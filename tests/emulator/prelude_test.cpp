// SPDX-License-Identifier: Apache-2.0
// Vector accesses, the approximations' host versions, thread indices and lane exchange.
#include <gmock/gmock.h>

#include <cmath>

#include "support.h"

namespace kdagen::emulator::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Four-element copies of all three types, `offset` elements into their buffers.
std::vector<std::string> copy(const std::string& entry, std::size_t offset) {
  constexpr std::size_t count = 4 * 64 * 2;
  GuardedArray<std::uint16_t> bf16_in(count + offset), bf16_out(count + offset), fp16_in(count + offset),
      fp16_out(count + offset);
  GuardedArray<float> float_in(count + offset), float_out(count + offset);
  for (std::size_t i = 0; i < count + offset; ++i) {
    bf16_in[i] = static_cast<std::uint16_t>(0x3f80 + i);
    fp16_in[i] = static_cast<std::uint16_t>(0x3c00 + i);
    float_in[i] = static_cast<float>(i) + 0.25f;
  }
  const std::vector<Buffer> buffers = {
      {bf16_in.data(), bf16_in.size_bytes(), "bf16_in", true, false},
      {bf16_out.data(), bf16_out.size_bytes(), "bf16_out", false, true},
      {fp16_in.data(), fp16_in.size_bytes(), "fp16_in", true, false},
      {fp16_out.data(), fp16_out.size_bytes(), "fp16_out", false, true},
      {float_in.data(), float_in.size_bytes(), "float_in", true, false},
      {float_out.data(), float_out.size_bytes(), "float_out", false, true},
  };
  const std::vector<std::int64_t> words = {word(bf16_in.data() + offset),  word(bf16_out.data() + offset),
                                           word(fp16_in.data() + offset),  word(fp16_out.data() + offset),
                                           word(float_in.data() + offset), word(float_out.data() + offset)};
  const std::vector<std::string> reports =
      run(*load_kernels("prelude.cu", true), entry, {2}, {64}, 0, words.data(), words.size(), buffers, Options{});
  if (!reports.empty()) return reports;
  for (std::size_t i = offset; i < count + offset; ++i) {
    EXPECT_EQ(bf16_out[i], bf16_in[i]) << i;
    EXPECT_EQ(fp16_out[i], fp16_in[i]) << i;
    EXPECT_EQ(float_out[i], float_in[i]) << i;
  }
  return reports;
}

TEST(FourElements, AlignedCopyAtMultiplesOfFour) {
  EXPECT_THAT(copy("copy_aligned", 0), IsEmpty());
  EXPECT_THAT(copy("copy_aligned", 4), IsEmpty());
}

TEST(FourElements, AnyCopyAtEveryElement) {
  for (const std::size_t offset : {0, 1, 2, 3}) EXPECT_THAT(copy("copy_any", offset), IsEmpty());
}

TEST(FourElements, AlignedCopyElsewhereIsAFault) {
  for (const std::size_t offset : {1, 2, 3})
    EXPECT_THAT(copy("copy_aligned", offset), Contains(HasSubstr("misaligned access")));
}

TEST(Functions, ApproximateTheirNames) {
  std::vector<float> x;
  std::vector<int> power;
  for (int i = 0; i < 1000; ++i) {
    x.push_back(std::ldexp(1.0f + static_cast<float>(i) / 1000.0f, i % 12 - 6));
    power.push_back(i % 201 - 100);
  }
  x.insert(x.end(), {-130.0f, 1e-40f, 0x1.8p100f, 0x1.8p-100f, 1.5f, 1.5f});  // subnormals in and out; large scalings
  power.insert(power.end(), {0, 0, -200, 200, -252, 255});
  const std::size_t n = x.size();
  std::vector<float> exp2(n), log2(n), rcp(n), rsqrt(n), scaled(n);
  run_words("prelude.cu", "functions", {1}, {1},
            {word(x.data()), word(exp2.data()), word(log2.data()), word(rcp.data()), word(rsqrt.data()),
             word(scaled.data()), word(power.data()), static_cast<std::int64_t>(n)});
  const auto near = [](double value, double wanted) {
    return std::abs(value - wanted) <= std::max(std::abs(wanted) * 0x1p-22, 0x1p-149) || value == wanted;
  };
  for (std::size_t i = 0; i < n; ++i) {
    const double v = x[i];
    EXPECT_TRUE(near(exp2[i], static_cast<float>(std::exp2(v)))) << v;
    if (v > 0.0) {
      EXPECT_TRUE(near(log2[i], std::log2(v))) << v;
      EXPECT_TRUE(near(rsqrt[i], 1.0 / std::sqrt(v))) << v;
    }
    EXPECT_TRUE(near(rcp[i], static_cast<float>(1.0 / v))) << v;
    EXPECT_EQ(scaled[i], static_cast<float>(std::ldexp(v, power[i]))) << v << " " << power[i];
  }
}

TEST(Threads, KnowWhereTheyAre) {
  const Dim3 grid{3, 2, 2}, block{4, 8, 2};
  constexpr unsigned blocks = 12, threads = 64;
  std::vector<unsigned> where(blocks * threads * 6);
  std::vector<float> from_float(blocks * threads);
  std::vector<std::int64_t> from_i64(blocks * threads);
  run_words("prelude.cu", "identity", grid, block,
            {word(where.data()), word(from_float.data()), word(from_i64.data())});
  for (unsigned b = 0; b < blocks; ++b) {
    for (unsigned t = 0; t < threads; ++t) {
      const unsigned i = b * threads + t;
      const std::vector<unsigned> wanted = {t % 4, t / 4 % 8, t / 32, b % 3, b / 3 % 2, b / 6};
      EXPECT_EQ(std::vector(where.begin() + 6 * i, where.begin() + 6 * i + 6), wanted);
      EXPECT_EQ(from_float[i], static_cast<float>(t ^ 5u) + 0.5f);
      EXPECT_EQ(from_i64[i], static_cast<std::int64_t>(t ^ 16u) << 40);
    }
  }
}

}  // namespace
}  // namespace kdagen::emulator::testing
