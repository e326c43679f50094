// SPDX-License-Identifier: Apache-2.0
// The tuner from emission to the store on a stand-in driver, whose kernels write nothing and take the time that the
// test says: what is compiled, timed, stored, and taken from the store.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "runtime/cache.h"
#include "runtime/warn.h"
#include "tests/common/fake_cuda.h"
#include "tests/common/scratch.h"
#include "tests/common/tune_case.h"
#include "tools/tune/device_bench.h"
#include "tools/tune/retime.h"
#include "tools/tune/tune.h"

using namespace kdagen;
using namespace kdagen::testing;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

namespace {

constexpr int device = 0;  // "Fake 80"
const std::string arch = "sm_80";

BenchSizes small_sizes() {
  BenchSizes sizes;
  sizes.tokens = 100, sizes.heads = 2;
  return sizes;
}

FakeCuda& fake() {
  return *reinterpret_cast<FakeCudaState>(dlsym(dlopen(KDAGEN_FAKE_CUDA, RTLD_NOW), "kdagen_fake_cuda"))();
}

/// Blocks of 128 threads are faster, and so are more tiles a block.
float made_up_time(const FakeLaunch& last) {
  return (last.block == 128 ? 1.0f : 2.0f) + 0.01f * static_cast<float>(last.grid[0]);
}

/// In a child, since driver and cache are those of a process: the store is empty at first.
void on_stand_in(const std::function<void()>& body) {
  const Scratch cache = scratch();
  EXPECT_EQ(in_child([&] {
              ::setenv("KDAGEN_LIBCUDA", KDAGEN_FAKE_CUDA, 1);
              ::setenv("KDAGEN_CACHE_DIR", cache.path().c_str(), 1);
              body();
              return ::testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}

/// On the first small problem, 76 tiles of 3 heads, two tiles a block fault, and eight never end.
int some_fault(const FakeLaunch& launch) {
  const unsigned blocks = launch.grid[0] * launch.grid[1];
  if (blocks == 30) ::pause();
  return blocks == 114 ? 700 : 0;
}

tune::TuneRequest request_of(tune::Clock::duration budget) {
  tune::TuneRequest request;
  request.sizes = small_sizes();
  request.ordinal = device;
  request.deadline = tune::Clock::now() + budget;
  return request;
}

runtime::TuningStore store() { return {runtime::Cache::shared().directory().path, "Fake 80", arch, "rmsnorm_fwd"}; }

const tune::Report to_nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));

tune::Progress quiet() {
  return [](const tune::SearchResult&, size_t) {};
}

class TuneDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      runtime::default_cuda_compiler();
    } catch (const ToolchainError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

}  // namespace

TEST_F(TuneDevice, SearchTimesWhatItCompiles) {
  on_stand_in([] {
    fake().elapsed = made_up_time;
    Compilation compilation = compilation_of("rmsnorm", Direction::fwd);
    std::vector<tune::Candidate> all = tune::candidates(compilation, arch, {167936, 2048});
    std::erase_if(all, [&](const tune::Candidate& candidate) { return tune::distance(candidate, all.front()) > 1; });
    ASSERT_GE(all.size(), 4u);
    tune::DeviceBench bench(compilation, arch, small_sizes(), device);
    tune::SearchOptions options;
    options.deadline = tune::Clock::now() + 1h;
    options.jobs = 2;
    std::map<std::string, double> times;
    const tune::SearchResult result = tune::search(
        all, bench, {}, options,
        [&](const std::string& schedule, const tune::Trial& trial) { times[schedule] = trial.ms; }, quiet());
    EXPECT_THAT(result.best, HasSubstr("threads=128,"));
    // 7 tiles of 2 heads, 4 a block
    EXPECT_NEAR(result.ms, 1.04, 1e-6);
    EXPECT_NEAR(result.default_ms, 2.04, 1e-6);
    EXPECT_EQ(result.tried, static_cast<int>(all.size()));
    EXPECT_EQ(times.size(), all.size());
    EXPECT_EQ(fake().mistakes, 0);
  });
}

TEST_F(TuneDevice, WithoutTimeTheDefaultIsTimedAndStored) {
  on_stand_in([] {
    fake().elapsed = made_up_time;
    Compilation compilation = compilation_of("rmsnorm", Direction::fwd);
    const tune::TuneRun run = tune::tune(compilation, request_of(0s), {}, to_nowhere);
    EXPECT_EQ(run.direction, "fwd");
    EXPECT_EQ(run.result.tried, 1);
    EXPECT_NEAR(run.result.ms, 2.04, 1e-6);
    EXPECT_EQ(run.result.default_ms, run.result.ms);
    tune::DeviceBench bench(compilation, arch, small_sizes(), device);
    const auto entries = store().entries(bench.key());
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries[0].text, bench.tuned_text(run.result.best));
    EXPECT_EQ(bench.key().shape, (runtime::TuningShape{false, 1, 100, 2, 1, 14, ""}));
    EXPECT_THAT(bench.key().machine, HasSubstr("100 multiprocessors"));
    EXPECT_EQ(tune::schedule_for(compilation, arch), "default");  // not asked for
    Compilation tuned = compilation_of("rmsnorm", Direction::fwd, {{"schedule", "tuned"}});
    EXPECT_EQ(tune::schedule_for(tuned, arch), run.result.best);
  });
}

// T086 T088
TEST_F(TuneDevice, TunedIsWhatWasChosenIfItStillPasses) {
  on_stand_in([] {
    Compilation compilation = compilation_of("rmsnorm", Direction::fwd, {{"schedule", "tuned"}});
    std::vector<std::string> warnings;
    runtime::set_warning_sink([&](const std::string& message) { warnings.push_back(message); });
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(tune::schedule_for(compilation, arch), "default");
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("no choice is stored for rmsnorm_fwd"));
    tune::DeviceBench bench(compilation, arch, small_sizes(), device);
    const std::string good = "threads=128,tiles_per_block=16,min_blocks=2,heads_fastest=1,stages=0";
    const std::string once = "threads=128,tiles_per_block=8,min_blocks=2,heads_fastest=1,stages=0";
    store().add_timing(bench.key(), bench.tuned_text(once), 0.1);  // timed once, and chosen by no search
    store().choose(bench.key(), bench.tuned_text(good));
    EXPECT_EQ(tune::schedule_for(compilation, arch, problem_of(small_sizes())), good);
    EXPECT_EQ(tune::schedule_for(compilation, arch), good);  // of another size, the nearest there is
    EXPECT_TRUE(warnings.empty());
    const emit::Emitted emitted = tune::emit_tuned(compilation, arch);
    EXPECT_EQ(emitted.text, emit_kernel_as(compilation, good, arch).text);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(tune::schedule_for(compilation, "sm_90"), "default");
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("is sm_80, not sm_90"));
    for (const runtime::TunedText& stale : {runtime::TunedText{"threads=7", ""}, {once, "another text"}}) {
      warnings.clear();
      runtime::set_warning_sink([&](const std::string& message) { warnings.push_back(message); });
      store().choose(bench.key(), stale);
      ::testing::internal::CaptureStderr();
      EXPECT_EQ(tune::schedule_for(compilation, arch), "default");
      EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("no stored choice passes"));
      ASSERT_EQ(warnings.size(), 1u);
      EXPECT_THAT(warnings[0], HasSubstr(stale.schedule));
      ::testing::internal::CaptureStderr();
      EXPECT_EQ(tune::schedule_for(compilation, arch), "default");  // rejected for good
      ::testing::internal::GetCapturedStderr();
      EXPECT_EQ(warnings.size(), 1u);
    }
  });
}

// T086
TEST_F(TuneDevice, WhatWasTimedWithAnotherTextIsTimedAgain) {
  on_stand_in([] {
    fake().elapsed = made_up_time;
    Compilation compilation = compilation_of("rmsnorm", Direction::fwd);
    tune::DeviceBench bench(compilation, arch, small_sizes(), device);
    const std::vector<tune::Candidate> all = tune::candidates(compilation, arch, {167936, 2048});
    std::vector<runtime::TuningEntry> entries{{bench.tuned_text(all[1].schedule), {1}, ""},
                                              {{all[2].schedule, "of an older compiler"}, {0.1}, ""},
                                              {{all[3].schedule, "of an older compiler"}, {}, "spills 8 bytes"},
                                              {{"threads=7", ""}, {}, "refused"}};
    EXPECT_EQ(bench.still_true(entries).size(), 2u);
    for (const runtime::TuningEntry& entry : entries) store().reject(bench.key(), entry.text, "a reason");
    const tune::TuneRun run = tune::tune(compilation, request_of(0s), {}, to_nowhere);
    EXPECT_EQ(run.result.tried, 2);  // the default now, and the first of them before
  });
}

// T090
TEST_F(TuneDevice, CandidatesThatFaultOrNeverEndAreRejectedAndTheOthersMeasured) {
  on_stand_in([] {
    fake().elapsed = made_up_time;
    fake().launch_result = some_fault;
    tune::TuneRequest request = request_of(1h);
    request.patience = 1s;
    request.most_candidates = 8;
    std::vector<std::string> best;
    const tune::TuneRun run =
        tune::tune_apart([](bool) { return compilation_of("rmsnorm", Direction::fwd); }, request,
                         [&](const tune::SearchResult& so_far, size_t) { best.push_back(so_far.best); });
    EXPECT_THAT(run.result.best, HasSubstr("threads=128,"));
    EXPECT_EQ(run.result.tried, 8);
    EXPECT_EQ(run.result.rejected, 2);
    EXPECT_GE(best.size(), 8u);
    EXPECT_TRUE(fake().launches.empty());  // all of it elsewhere
    fake().launch_result = nullptr;
    Compilation compilation = compilation_of("rmsnorm", Direction::fwd);
    tune::DeviceBench bench(compilation, arch, small_sizes(), device);
    const std::vector<runtime::TuningEntry> entries = store().entries(bench.key());
    EXPECT_EQ(entries.size(), 8u);
    for (const runtime::TuningEntry& entry : entries) {
      const std::string& schedule = entry.text.schedule;
      EXPECT_EQ(entry.text, bench.tuned_text(schedule));
      if (schedule.find("tiles_per_block=2,") != std::string::npos)
        EXPECT_THAT(entry.rejected, HasSubstr("A kernel faulted")) << schedule;
      else if (schedule.find("tiles_per_block=8,") != std::string::npos)
        EXPECT_THAT(entry.rejected, HasSubstr("without a result")) << schedule;
      else
        EXPECT_EQ(entry.rejected, "") << schedule;
    }
  });
}

// T090
TEST_F(TuneDevice, ADefaultThatFaultsIsAnError) {
  on_stand_in([] {
    fake().launch_result = [](const FakeLaunch&) { return 700; };
    try {
      tune::tune_apart([](bool) { return compilation_of("rmsnorm", Direction::fwd); }, request_of(1h), quiet());
      ADD_FAILURE();
    } catch (const ToolchainError& error) {
      EXPECT_THAT(error.what(), HasSubstr("A kernel faulted"));
    }
  });
}

TEST_F(TuneDevice, SmallReferencesRunEveryEntry) {
  on_stand_in([] {
    Compilation compilation = compilation_of("rmsnorm", Direction::bwd);
    tune::DeviceBench bench(compilation, arch, small_sizes(), device);
    const tune::Built start = bench.prepare("default")();
    ASSERT_TRUE(start.kernel);
    std::set<std::string> entries, launched;
    for (const runtime::LaunchInfo& launch : start.kernel->manifest().launches) {
      entries.insert(launch.entry);
      if (!launch.entry_any.empty()) entries.insert(launch.entry_any);
    }
    size_t offset_bytes = 0;  // which of the words it is
    for (const runtime::ArgumentInfo& argument : start.kernel->manifest().arguments) {
      if (argument.name == "offset_bytes") break;
      offset_bytes += static_cast<size_t>(runtime::argument_words(argument.kind));
    }
    fake().launches.clear();
    fake().word_count = static_cast<int>(offset_bytes) + 1;
    EXPECT_EQ(bench.difference(start, false), "");
    std::set<std::pair<std::string, std::uint64_t>> main_entries;
    for (const FakeLaunch& launch : fake().launches) {
      launched.insert(launch.entry);
      if (launch.entry == "rmsnorm_bwd" || launch.entry == "rmsnorm_bwd_any")
        main_entries.emplace(launch.entry, launch.words.at(offset_bytes));
    }
    EXPECT_EQ(launched, entries);
    EXPECT_GT(entries.size(), 4u);
    EXPECT_THAT(main_entries, ElementsAre(Pair("rmsnorm_bwd", 0), Pair("rmsnorm_bwd", 4), Pair("rmsnorm_bwd_any", 0),
                                          Pair("rmsnorm_bwd_any", 8)));
  });
}

TEST_F(TuneDevice, NothingIsAllocatedWhileACallIsTimed) {
  on_stand_in([] {
    Compilation compilation = compilation_of("rmsnorm", Direction::bwd);
    tune::DeviceBench bench(compilation, arch, small_sizes(), device);
    const tune::Built start = bench.prepare("tiles_per_block=2")();  // another workspace than the default's
    ASSERT_TRUE(start.kernel);
    fake().calls.clear();
    fake().events_are_calls = true;
    bench.milliseconds(start);
    bool timing = false;
    int events = 0;
    for (const std::string& call : fake().calls) {
      if (call == "event")
        timing = !timing, ++events;
      else
        EXPECT_FALSE(timing) << call;
    }
    EXPECT_GE(events, 18);
  });
}

TEST_F(TuneDevice, EveryScheduleIsTimedAgainBesideTheChoice) {
  on_stand_in([] {
    fake().elapsed = made_up_time;
    fake().launch_result = [](const FakeLaunch& launch) { return launch.grid[0] * launch.grid[1] == 114 ? 700 : 0; };
    Compilation compilation = compilation_of("rmsnorm", Direction::fwd);
    const std::string start = tune::candidates(compilation, arch, {167936, 2048}).front().schedule;
    const auto again = [&](int tiles) {
      std::string chosen = start;
      const size_t at = chosen.find("tiles_per_block=4,");
      EXPECT_NE(at, std::string::npos) << start;
      chosen.replace(at, 17, fmt::format("tiles_per_block={}", tiles));
      return tune::retime_apart([] { return compilation_of("rmsnorm", Direction::fwd); }, small_sizes(), device, chosen,
                                2, 8);
    };
    const tune::Retiming all = again(4);
    EXPECT_EQ(all.failure, "");
    EXPECT_EQ(all.timed, 7);  // one faults
    EXPECT_THAT(all.best, HasSubstr("threads=128,tiles_per_block=4"));
    EXPECT_NEAR(all.chosen_ms, 2.04, 1e-6);
    EXPECT_NEAR(all.best_ms, 1.04, 1e-6);
    const tune::Retiming faulty = again(2), unknown = again(3);
    EXPECT_EQ(faulty.timed, 7);
    EXPECT_THAT(faulty.failure, HasSubstr("A kernel faulted"));
    EXPECT_THAT(unknown.failure, HasSubstr("no candidate"));
  });
}

TEST(TuneJobs, TheThreadThatTimesHasACoreOfItsOwn) {
  EXPECT_EQ(tune::jobs_beside_timing(0), 1);
  EXPECT_EQ(tune::jobs_beside_timing(1), 1);
  EXPECT_EQ(tune::jobs_beside_timing(2), 1);
  EXPECT_EQ(tune::jobs_beside_timing(16), 15);
}

TEST_F(TuneDevice, InputsTakeTurnsUntilTheyOutgrowTheCache) {
  on_stand_in([] {
    Compilation compilation = compilation_of("rmsnorm", Direction::fwd);
    tune::DeviceBench bench(compilation, arch, small_sizes(), device);
    const tune::Built start = bench.prepare("default")();
    ASSERT_TRUE(start.kernel);
    fake().launches.clear();
    fake().word_count = 1;  // the first argument: where x is
    bench.milliseconds(start);
    std::set<std::uint64_t> places;
    for (const FakeLaunch& launch : fake().launches) places.insert(launch.words[0]);
    const double bytes = 100 * 2 * 128 * (2 + 2);  // x and y; the cache has 1 MiB
    EXPECT_GE(places.size() * bytes, 2.0 * (1 << 20));
    EXPECT_LE((places.size() - 2) * bytes, 2.0 * (1 << 20));
  });
}

TEST(SpilledBytes, OfAllEntries) {
  runtime::CompiledText compiled;
  compiled.resources = {{"a", "sm_90", 40, 0, 0, 0, 0, 0}, {"b", "sm_90", 255, 16, 8, 4, 0, 0}};
  EXPECT_EQ(tune::spilled_bytes(compiled), 12);
}
