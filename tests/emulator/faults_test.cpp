// SPDX-License-Identifier: Apache-2.0
// Each fault seeded into the sample kernel is found, in the natural order and in a random one, with the right line.
#include <gmock/gmock.h>

#include "support.h"

namespace kdagen::emulator::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ValuesIn;

struct Case {
  const char* name;
  const char* says;
  const char* also;
  const char* line_of;  // the marked line that the report gives; "" for faults without one
};

const std::vector<Case> cases = {
    {"missing_barrier", "race: ", "shared array tile", "column_phase"},
    {"missing_warp_barrier", "race: ", "shared array partial", "missing_warp_barrier"},
    {"read_then_write", "race: ", "read it at line", "read_then_write"},
    {"blocks_write_one_place", "race between blocks: ", "writes total, byte 24", "blocks_write_one_place"},
    {"block_reads_another", "race between blocks: ", "reads total", "block_reads_another"},
    {"uninitialised_shared", "uninitialised read: ", "shared array tile, byte", "column_phase"},
    {"uninitialised_output", "uninitialised read: ", "total, byte 24", "uninitialised_output"},
    {"past_the_end", "out of bounds: ", "of y, which has 23040", "past_the_end"},
    {"before_the_start", "out of bounds: ", "byte -", "before_the_start"},
    {"past_shared_pointer", "out of bounds: ", "of shared array tile, which has 4224", "past_shared_pointer"},
    {"shared_index", "is outside 'float", "of block", "shared_index"},
    {"misaligned", "misaligned access", "2 bytes past a multiple of 8", "misaligned"},
    {"read_only", "read-only: ", "writes weight, byte 0", "read_only"},
    {"null_pointer", "", "a null pointer", ""},
    {"divergent_barrier", "divergent barrier", "others at line", "divergent_barrier"},
    {"two_barriers", "divergent barrier", "others at line", "two_barriers"},
    {"early_return", "divergent barrier", "200 of 256 threads wait", "early_return"},
    {"partial_shuffle", "", "in the lane_xor", "partial_shuffle"},
    {"two_shuffles", "divergent warp", "in lane_xor at line", "two_shuffles"},
    {"returned_lanes", "partial warp", "lanes 0x0000ffff of warp 7 only; the others have returned", ""},
    {"shuffle_against_barrier", "deadlock", "in the block barrier", "shuffle_against_barrier"},
    {"overflow", "signed multiplication overflows", "", "overflow"},
    {"shift", "shift by a negative number or by too many bits", "", "shift"},
    {"division", "division by zero or overflow", "", "division"},
    {"misaligned_cast", "misaligned access to ", "4 bytes past a multiple of 8", "misaligned_cast"},
    {"stale_shared", "uninitialised read: ", "shared array carried, byte 0", "stale_shared"},
};

class SeededFault : public ::testing::TestWithParam<Case> {};

TEST_P(SeededFault, IsFound) {
  const Case& fault = GetParam();
  for (const unsigned seed : {0u, 3u}) {
    Sample sample(45);
    const std::vector<std::string> reports = sample.run(fault.name, {.order_seed = seed});
    const std::string line =
        *fault.line_of ? "line " + std::to_string(marked_line("sample.cu", fault.line_of)) : std::string();
    EXPECT_THAT(reports, Contains(AllOf(HasSubstr(fault.says), HasSubstr(fault.also), HasSubstr(line)))) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, SeededFault, ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Reports, StopAtTheMaximum) {
  Sample sample(45);
  EXPECT_THAT(sample.run("read_then_write", {.max_reports = 1}), SizeIs(1));
}

}  // namespace
}  // namespace kdagen::emulator::testing
