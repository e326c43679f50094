// SPDX-License-Identifier: Apache-2.0
// Copies that the threads start and wait for later (kdagen/staging.cuh): right values over thread orders, and each
// seeded fault is reported.
#include <gmock/gmock.h>

#include "support.h"

namespace kdagen::emulator::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ValuesIn;

constexpr int columns = 32;

struct Copied {
  explicit Copied(int count) : tokens(count), x(count * columns), y(count * columns) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) + 0.5f;
  }

  std::vector<std::string> run(const std::string& entry, unsigned seed) {
    const std::vector<std::int64_t> words{word(x.data()), word(y.data()), tokens};
    const std::vector<Buffer> buffers{{x.data(), x.size_bytes(), "x", true, false},
                                      {y.data(), y.size_bytes(), "y", false, true}};
    return emulator::run(*load_kernels("thread_copies.cu", true), "copied_" + entry, {1, 1, 1}, {64, 1, 1}, 2048,
                         words.data(), words.size(), buffers, {.order_seed = seed});
  }

  int tokens;
  GuardedArray<float> x, y;
};

TEST(ThreadCopies, GoodTextIsSilentAndRightInEveryOrder) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Copied copied(45);  // the last box reaches past the tensor
    EXPECT_THAT(copied.run("none", seed), IsEmpty()) << seed;
    for (std::size_t i = 0; i < copied.y.size(); ++i) ASSERT_EQ(copied.y[i], 2 * copied.x[i]) << i;
  }
}

struct Case {
  const char* name;
  const char* says;
};

const std::vector<Case> cases = {
    {"read_before_wait", "uninitialised read: "},
    {"too_many_left_to_wait_for", "uninitialised read: "},
    {"request_never_ended", "uninitialised read: "},
    {"no_empty_request", "uninitialised read: "},
    {"no_barrier_after_wait", "shared array (dynamic), byte"},
    {"refilled_while_read", "shared array (dynamic), byte"},
    {"misaligned_place", "the place lies 4 bytes past a multiple of 16"},
    {"misaligned_source", "the source lies 4 bytes past a multiple of 16"},
    {"two_copies_in_one_place", "to which another copy is on its way"},
    {"past_the_end", "out of bounds: "},
    {"rows_of_nobody", "out of bounds: "},
    {"written_on_the_way", "race: "},
};

class ThreadCopiesFault : public ::testing::TestWithParam<Case> {};

TEST_P(ThreadCopiesFault, IsFound) {
  for (const unsigned seed : {0u, 3u, 5u}) {
    Copied copied(45);
    EXPECT_THAT(copied.run(GetParam().name, seed), Contains(HasSubstr(GetParam().says))) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, ThreadCopiesFault, ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kdagen::emulator::testing
