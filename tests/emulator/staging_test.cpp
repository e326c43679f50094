// SPDX-License-Identifier: Apache-2.0
// Operands that travel ahead (kdagen/staging.cuh): right values over thread orders, and each seeded fault of the
// protocol is reported.
#include <gmock/gmock.h>

#include <cstring>

#include "support.h"

namespace kdagen::emulator::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ValuesIn;

constexpr int columns = 32;

struct Staged {
  explicit Staged(int count) : tokens(count), x(count * columns), y(count * columns) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) + 0.5f;
  }

  std::vector<std::string> run(const std::string& entry, unsigned seed) {
    const std::uint64_t row_bytes = columns * sizeof(float);
    TensorMap map{reinterpret_cast<std::uintptr_t>(x.data()),
                  sizeof(float),
                  {columns, static_cast<std::uint64_t>(tokens), 1, 1},
                  {row_bytes, row_bytes, row_bytes},
                  {columns, 8}};
    std::vector<std::int64_t> words(24);
    std::memcpy(words.data(), &map, sizeof map);
    words[16] = word(y.data());
    words[17] = tokens;
    const std::vector<Buffer> buffers{{x.data(), x.size_bytes(), "x", true, false},
                                      {y.data(), y.size_bytes(), "y", false, true}};
    return emulator::run(*load_kernels("staging.cu", true), "staged_" + entry, {1, 1, 1}, {64, 1, 1}, 4096 + 16 + 80,
                         words.data(), words.size(), buffers, {.order_seed = seed});
  }

  int tokens;
  GuardedArray<float> x, y;
};

TEST(Staging, GoodTextIsSilentAndRightInEveryOrder) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Staged staged(45);  // the last box reaches past the tensor
    EXPECT_THAT(staged.run("none", seed), IsEmpty()) << seed;
    for (std::size_t i = 0; i < staged.y.size(); ++i) ASSERT_EQ(staged.y[i], 2 * staged.x[i]) << i;
  }
}

struct Case {
  const char* name;
  const char* says;
};

const std::vector<Case> cases = {
    {"read_before_wait", "uninitialised read: "},
    {"wrong_phase", "uninitialised read: "},
    {"too_few_bytes", "1008 bytes announced, but 1024 were asked for"},
    {"too_many_bytes", "1024 of the 1040 bytes announced were asked for"},
    {"unpublished", "no publish_arrivals of thread 0"},
    {"uninitialised", "on an arrival counter that was never initialised"},
    {"refilled_while_read", "shared array (dynamic), byte"},
    {"misaligned_place", "16 bytes past a multiple of 128"},
    {"two_boxes_in_one_place", "to which another box is on its way"},
    {"past_the_end", "out of bounds: "},
    {"never_announced", "phase 1 was never announced"},
    {"thread_wrote_the_place", "fills a place that threads wrote"},
    {"overwritten_counter", "where an arrival counter is"},
    {"announced_twice", "announces a phase before the one under way is over"},
};

class StagingFault : public ::testing::TestWithParam<Case> {};

TEST_P(StagingFault, IsFound) {
  for (const unsigned seed : {0u, 3u, 5u}) {
    Staged staged(45);
    EXPECT_THAT(staged.run(GetParam().name, seed), Contains(HasSubstr(GetParam().says))) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, StagingFault, ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kdagen::emulator::testing
