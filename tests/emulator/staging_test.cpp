// SPDX-License-Identifier: Apache-2.0
// Operands that travel ahead (kdagen/staging.cuh): right values over thread orders, and each seeded fault of the
// protocol is reported.
#include <cstring>

#include "doubled.h"

namespace kdagen::emulator::testing {
namespace {

struct Staged : Doubled {
  using Doubled::Doubled;

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
    return emulator::run(*load_kernels("staging.cu", true), "staged_" + entry, {1, 1, 1}, {64, 1, 1}, 4096 + 16 + 80,
                         words.data(), words.size(), buffers(), {.order_seed = seed});
  }
};

TEST(Staging, GoodTextIsSilentAndRightInEveryOrder) { expect_right_in_every_order<Staged>(); }

const std::vector<SeededFault> cases = {
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

class StagingFault : public ::testing::TestWithParam<SeededFault> {};

TEST_P(StagingFault, IsFound) { expect_found<Staged>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Faults, StagingFault, ::testing::ValuesIn(cases), name_of);

}  // namespace
}  // namespace kdagen::emulator::testing
