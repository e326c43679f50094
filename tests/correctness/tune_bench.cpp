// SPDX-License-Identifier: Apache-2.0
// What `bench` reports beside times: spills of the worst entry, and calls with tensors that were not seen before.
#include <dlfcn.h>

#include <set>

#include <gtest/gtest.h>

#include "codegen/backend.h"
#include "kdagen/error.h"
#include "runtime/launch_plan.h"
#include "tests/common/fake_cuda.h"
#include "tests/common/scratch.h"
#include "tests/common/tune_case.h"
#include "tools/bench/bench.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

runtime::EntryReport report(const std::string& entry, int stores, int loads) {
  return {entry, {}, {entry, "sm_90", 40, 0, stores, loads, 0, 0}};
}

}  // namespace

TEST(BenchSpills, OfTheWorstEntry) {
  EXPECT_EQ(most_spilled_bytes({report("a", 0, 0), report("b", 8, 4), report("c", 2, 6)}), 12);
  EXPECT_EQ(most_spilled_bytes({report("a", 0, 0)}), 0);
  EXPECT_EQ(most_spilled_bytes({}), std::nullopt);
  EXPECT_EQ(most_spilled_bytes({report("a", 8, 0), {"b", {}, {}}}), std::nullopt);  // one that the driver finished
}

TEST(BenchLaunchCost, FreshCallsHaveTensorsThatNoKeptOneHas) {
  try {
    runtime::default_cuda_compiler();
  } catch (const ToolchainError& error) {
    GTEST_SKIP() << error.what();
  }
  const Scratch cache = scratch();
  EXPECT_EQ(in_child([&] {
              ::setenv("KDAGEN_LIBCUDA", KDAGEN_FAKE_CUDA, 1);
              ::setenv("KDAGEN_CACHE_DIR", cache.path().c_str(), 1);
              auto& fake =
                  *reinterpret_cast<FakeCudaState>(dlsym(dlopen(KDAGEN_FAKE_CUDA, RTLD_NOW), "kdagen_fake_cuda"))();
              Compilation compilation = compilation_of("rmsnorm", Direction::fwd);
              const emit::Emitted emitted = emit_kernel(compilation, "sm_80");
              fake.word_count = 1;  // where x is
              const auto kernel = runtime::make_cuda_kernel(emitted.text, emitted.manifest);
              EXPECT_GT(launch_cost(*kernel, 0).fresh_us, 0);
              std::set<std::uint64_t> places;
              size_t repeats = 0;  // of the place before
              for (size_t i = 0; i < fake.launches.size(); ++i) {
                places.insert(fake.launches[i].words[0]);
                repeats += i > 0 && fake.launches[i].words[0] == fake.launches[i - 1].words[0];
              }
              EXPECT_EQ(places.size(), 1 + 2 * runtime::LaunchPlans::capacity);
              EXPECT_NEAR(static_cast<double>(repeats), 2.0 / 3 * static_cast<double>(fake.launches.size()), 10);
              return ::testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}
