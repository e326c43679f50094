// SPDX-License-Identifier: Apache-2.0
// Which schedules the tuner looks at.
#include "tools/tune/space.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/schedule/schedule.h"
#include "kdagen/error.h"
#include "kdagen/registry.h"
#include "tests/common/tune_case.h"

using namespace kdagen;
using namespace kdagen::testing;
using ::testing::HasSubstr;
using ::testing::Not;
using tune::Candidate;
using tune::Processor;

namespace {

constexpr Processor large{233472, 2048}, small{102400, 1536};

void expect_sound(const std::vector<Candidate>& all, Compilation& compilation, const std::string& arch,
                  const Processor& processor) {
  ASSERT_GT(all.size(), 10u);
  EXPECT_EQ(all[0].schedule, schedule::tiling_text(schedule_figures(compilation, arch, "default").tiling));
  std::set<std::string> names;
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(names.insert(all[i].schedule).second) << all[i].schedule;
    if (i > 1) {
      EXPECT_LE(tune::distance(all[i - 1], all[0]), tune::distance(all[i], all[0]));
    }
  }
  for (size_t i = 1; i < all.size(); i += all.size() / 12 + 1) {  // the emitted text is the witness
    const emit::Emitted emitted = emit_kernel_as(compilation, all[i].schedule, arch);
    EXPECT_THAT(emitted.text, HasSubstr(all[i].schedule));
    const schedule::Tiling tiling = schedule_figures(compilation, arch, all[i].schedule).tiling;
    EXPECT_EQ(schedule::tiling_text(tiling), all[i].schedule);
    for (const runtime::LaunchInfo& launch : emitted.manifest.launches) {
      if (launch.entry != emitted.manifest.kernel) continue;
      EXPECT_EQ(launch.block, tiling.threads);
      EXPECT_EQ(launch.tiles_per_block, tiling.tiles_per_block);
      EXPECT_LE(tiling.min_blocks * (launch.shared_bytes + 1024), processor.shared_bytes) << all[i].schedule;
      EXPECT_LE(tiling.min_blocks * launch.block, processor.threads) << all[i].schedule;
    }
  }
}

ScheduleFigures figures(int threads, int blocks, int stages, int shared, int slot, int resident) {
  ScheduleFigures result{{}, shared, slot, resident};
  result.tiling.threads = threads, result.tiling.min_blocks = blocks, result.tiling.stages = stages;
  return result;
}

}  // namespace

// T089 T090
TEST(TuneSpace, EveryCandidateIsTakenAsItIsNamedAndFits) {
  Compilation bthd = compilation_of("rmsnorm", Direction::bwd);
  expect_sound(tune::candidates(bthd, "sm_90", large), bthd, "sm_90", large);
  Compilation htd = compilation_of("gla", Direction::fwd, {{"layout", "htd"}, {"chunk", "32"}});
  expect_sound(tune::candidates(htd, "sm_86", small), htd, "sm_86", small);
}

TEST(TuneSpace, WhatALayoutLacksIsLeftOut) {
  Compilation htd = compilation_of("rmsnorm", Direction::fwd, {{"layout", "htd"}});
  for (const Candidate& candidate : tune::candidates(htd, "sm_80", large))
    EXPECT_THAT(candidate.schedule, HasSubstr("heads_fastest=0,stages="));
  Compilation bthd = compilation_of("rmsnorm", Direction::fwd);
  std::set<std::string> ends;
  for (const Candidate& candidate : tune::candidates(bthd, "sm_90", large))
    ends.insert(candidate.schedule.substr(candidate.schedule.find("heads_fastest")));
  for (const char* end :
       {"heads_fastest=0,stages=0", "heads_fastest=1,stages=0", "heads_fastest=0,stages=2", "heads_fastest=1,stages=2"})
    EXPECT_TRUE(ends.count(end)) << end;
}

TEST(TuneSpace, MoreThreadsThanATileHasWorkFor) {
  Compilation compilation =
      compilation_of("rmsnorm", Direction::fwd, {{"dim", "64"}, {"chunk", "8"}});  // 512 numbers, 8 a thread
  for (const Candidate& candidate : tune::candidates(compilation, "sm_90", large))
    EXPECT_THAT(candidate.schedule, HasSubstr("threads=64,"));
}

TEST(TuneSpace, WhatCannotFitIsHopeless) {
  EXPECT_EQ(tune::hopeless(figures(256, 2, 0, 40 << 10, 0, 4), large), "");
  EXPECT_EQ(tune::hopeless(figures(256, 6, 0, 40 << 10, 0, 8), large), "shared memory");
  EXPECT_EQ(tune::hopeless(figures(256, 5, 0, 40 << 10, 0, 8), large), "");  // 5 * 41 KiB of 228
  EXPECT_EQ(tune::hopeless(figures(512, 5, 0, 1 << 10, 0, 8), large), "threads");
  EXPECT_EQ(tune::hopeless(figures(512, 4, 0, 1 << 10, 0, 2), large), "registers");
  EXPECT_EQ(tune::hopeless(figures(512, 3, 0, 1 << 10, 0, 2), large), "");  // the compiler decides
}

TEST(TuneSpace, ProcessorsOfArchitectures) {
  for (const char* arch : {"sm_90", "sm_90a"}) {
    EXPECT_EQ(tune::processor_of(arch).shared_bytes, 228 << 10);
    EXPECT_EQ(tune::processor_of(arch).threads, 2048);
  }
  EXPECT_EQ(tune::processor_of("sm_86").shared_bytes, 100 << 10);
  EXPECT_EQ(tune::processor_of("sm_86").threads, 1536);
  EXPECT_THROW(tune::processor_of("sm_70"), UsageError);
}

TEST(TuneSpace, BytesOnTheirWay) {
  EXPECT_THAT(tune::hopeless(figures(256, 1, 1, 20 << 10, 2 << 10, 1), large), HasSubstr("too few"));
  EXPECT_EQ(tune::hopeless(figures(256, 1, 4, 20 << 10, 2 << 10, 1), large), "");
  EXPECT_EQ(tune::hopeless(figures(256, 4, 1, 20 << 10, 2 << 10, 4), large), "");
  EXPECT_EQ(tune::hopeless(figures(256, 1, 4, 100 << 10, 32 << 10, 8), large), "");
  EXPECT_THAT(tune::hopeless(figures(128, 2, 4, 20 << 10, 16 << 10, 8), large), HasSubstr("more bytes"));
}
