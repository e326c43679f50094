// SPDX-License-Identifier: Apache-2.0
// Copies that the threads start and wait for later (kdagen/staging.cuh): right values over thread orders, and each
// seeded fault is reported.
#include "doubled.h"

namespace kdagen::emulator::testing {
namespace {

struct Copied : Doubled {
  using Doubled::Doubled;

  std::vector<std::string> run(const std::string& entry, unsigned seed) {
    const std::vector<std::int64_t> words{word(x.data()), word(y.data()), tokens};
    return emulator::run(*load_kernels("thread_copies.cu", true), "copied_" + entry, {1, 1, 1}, {64, 1, 1}, 2048,
                         words.data(), words.size(), buffers(), {.order_seed = seed});
  }
};

TEST(ThreadCopies, GoodTextIsSilentAndRightInEveryOrder) { expect_right_in_every_order<Copied>(); }

const std::vector<SeededFault> cases = {
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

class ThreadCopiesFault : public ::testing::TestWithParam<SeededFault> {};

TEST_P(ThreadCopiesFault, IsFound) { expect_found<Copied>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Faults, ThreadCopiesFault, ::testing::ValuesIn(cases), name_of);

}  // namespace
}  // namespace kdagen::emulator::testing
