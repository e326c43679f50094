// SPDX-License-Identifier: Apache-2.0
// The tuner from emission to the store on a stand-in driver, whose kernels write nothing and take the time that the
// test says: what is compiled, timed, stored, and taken from the store.
#include <dlfcn.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "runtime/cache.h"
#include "runtime/warn.h"
#include "tests/common/fake_cuda.h"
#include "tests/common/scratch.h"
#include "tests/common/tune_case.h"
#include "tools/tune/device_bench.h"
#include "tools/tune/tune.h"

using namespace kdagen;
using namespace kdagen::testing;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
    EXPECT_EQ(result.tried, static_cast<int>(all.size()));
    EXPECT_EQ(times.size(), all.size());
    EXPECT_EQ(fake().mistakes, 0);
  });
}

TEST_F(TuneDevice, WithoutTimeTheDefaultIsTimedAndStored) {
  on_stand_in([] {
    fake().elapsed = made_up_time;
    Compilation compilation = compilation_of("rmsnorm", Direction::fwd);
    const tune::TuneRun run = tune::tune(compilation, small_sizes(), device, tune::Clock::now(), quiet());
    EXPECT_EQ(run.direction, "fwd");
    EXPECT_EQ(run.result.tried, 1);
    EXPECT_NEAR(run.result.ms, 2.04, 1e-6);
    tune::DeviceBench bench(compilation, arch, small_sizes(), device);
    const runtime::TuningStore store(runtime::Cache::shared().directory().path, "Fake 80", arch, "rmsnorm_fwd");
    const auto entries = store.entries(bench.key());
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries[0].schedule, run.result.best);
    EXPECT_EQ(bench.key().shape, (runtime::ShapeClass{false, 3}));  // 14 tiles
    EXPECT_EQ(tune::schedule_for(compilation, arch), "default");    // not asked for
  });
}

// T086 T088
TEST_F(TuneDevice, TunedIsTheFastestStoredThatStillPasses) {
  on_stand_in([] {
    Compilation compilation = compilation_of("rmsnorm", Direction::fwd, {{"schedule", "tuned"}});
    std::vector<std::string> warnings;
    runtime::set_warning_sink([&](const std::string& message) { warnings.push_back(message); });
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(tune::schedule_for(compilation, arch), "default");
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("nothing is stored for rmsnorm_fwd"));
    tune::DeviceBench bench(compilation, arch, small_sizes(), device);
    const runtime::TuningStore store(runtime::Cache::shared().directory().path, "Fake 80", arch, "rmsnorm_fwd");
    const std::string good = "threads=128,tiles_per_block=16,min_blocks=2,heads_fastest=1,stages=0";
    store.add_timing(bench.key(), good, 2);
    store.add_timing(bench.key(), "threads=7", 1);
    store.add_timing(bench.key(), "threads=512", 0.5);
    store.reject(bench.key(), "threads=512", "dx differs from the default's");
    EXPECT_EQ(tune::schedule_for(compilation, arch, problem_of(small_sizes())), good);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr("threads=7"));
    EXPECT_EQ(tune::schedule_for(compilation, arch), good);  // of another size, the nearest there is
    EXPECT_EQ(warnings.size(), 1u);                          // the other one is rejected for good
    const emit::Emitted emitted = tune::emit_tuned(compilation, arch);
    EXPECT_EQ(emitted.text, emit_kernel_as(compilation, good, arch).text);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(tune::schedule_for(compilation, "sm_90"), "default");
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("is sm_80, not sm_90"));
  });
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
