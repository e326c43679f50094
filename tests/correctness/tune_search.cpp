// SPDX-License-Identifier: Apache-2.0
// The search on a workbench that is no device: made-up times, and a clock that only moves when something is timed.
#include "tools/tune/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/row_scale.h"

using namespace kdagen::tune;
using namespace std::chrono_literals;
using kdagen::runtime::TuningEntry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

const std::array<int, 5> best_at{3, 4, 1, 1, 2};

/// 5 * 5 * 8 * 2 * 5 schedules around the default at (1, 2, 3, 0, 0).
std::vector<Candidate> space() {
  std::vector<Candidate> all;
  for (int i = 0; i < 2000; ++i) {
    Candidate candidate{{i % 5, i / 5 % 5, i / 25 % 8, i / 200 % 2, i / 400}, ""};
    candidate.schedule =
        fmt::format("{}{}{}{}{}", candidate.at[0], candidate.at[1], candidate.at[2], candidate.at[3], candidate.at[4]);
    all.push_back(candidate);
  }
  const Candidate start{{1, 2, 3, 0, 0}, "12300"};
  std::stable_sort(all.begin(), all.end(),
                   [&](const Candidate& a, const Candidate& b) { return distance(a, start) < distance(b, start); });
  return all;
}

class MadeUp : public Workbench {
 public:
  std::function<Built()> prepare(const std::string& schedule) override {
    EXPECT_EQ(std::this_thread::get_id(), thread_);
    EXPECT_LE(++prepared[schedule], 2) << schedule;  // to be timed, and as a finalist
    return [this, schedule]() -> Built {
      most_at_once = std::max(most_at_once.load(), ++at_once);  // a lost update is made up for by the next
      for (int i = 0; schedule != "12300" && most_at_once < meet && i < 2000; ++i) {
        std::this_thread::sleep_for(1ms);
        most_at_once = std::max(most_at_once.load(), at_once.load());
      }
      --at_once;
      if (spilling.count(schedule)) return {nullptr, "spills 8 bytes"};
      // Only its manifest is looked at, for the name.
      kdagen::runtime::Manifest manifest = kdagen::testing::row_scale_manifest();
      manifest.spec = schedule;
      return {kdagen::runtime::make_cuda_kernel(kdagen::testing::row_scale_text, manifest), ""};
    };
  }
  std::string difference(const Built& built, bool whole_problem) override {
    const std::string& schedule = built.kernel->manifest().spec;
    if (whole_problem) clock += closing;
    const bool unequal = (whole_problem ? unequal_as_a_whole : unequal_anywhere).count(schedule);
    return unequal ? "dx differs from the default's" : "";
  }
  double milliseconds(const Built& built) override {
    const std::string& schedule = built.kernel->manifest().spec;
    clock += a_timing;
    timed.push_back(schedule);
    if (failing.count(schedule)) throw kdagen::ToolchainError("out of memory");
    if (lost.count(schedule)) throw kdagen::runtime::DeviceLost("a kernel faulted");
    const std::vector<double>& given = times[schedule];
    const size_t turn = static_cast<size_t>(std::count(timed.begin(), timed.end(), schedule)) - 1;
    return given.empty() ? time_of(schedule) : given[std::min(turn, given.size() - 1)];
  }
  Clock::duration closing_time() const override { return closing; }
  Clock::time_point now() const override { return clock; }

  /// Away from the best by so many steps of different weight.
  static double time_of(const std::string& schedule) {
    const double weights[] = {0.05, 0.11, 0.02, 0.07, 0.03};
    double ms = 1;
    for (size_t i = 0; i < best_at.size(); ++i) ms += weights[i] * std::abs(schedule[i] - '0' - best_at[i]);
    return ms;
  }

  std::set<std::string> spilling, unequal_anywhere, unequal_as_a_whole, failing, lost;
  std::map<std::string, std::vector<double>> times;  ///< of its first timing, the second, ...; else time_of
  std::map<std::string, int> prepared;
  std::vector<std::string> timed;
  Clock::time_point clock{};
  Clock::duration a_timing = 50ms, closing{};
  std::atomic<int> at_once = 0, most_at_once = 0;
  int meet = 1;  ///< a compilation waits until so many have been under way at once

 private:
  std::thread::id thread_ = std::this_thread::get_id();
};

class TuneSearch : public ::testing::Test {
 protected:
  SearchResult run(Clock::duration budget, int jobs = 4) {
    SearchOptions options;
    options.deadline = bench.clock + budget;
    options.jobs = jobs;
    return search(
        all, bench, known, options,
        [&](const std::string& schedule, const Trial& trial) {
          if (trial.rejected.empty())
            kept[schedule].ms.push_back(trial.ms);
          else
            kept[schedule].rejected = trial.rejected;
        },
        [&](const SearchResult& so_far, size_t of) {
          EXPECT_LE(so_far.tried, static_cast<int>(of));
          ++steps;
        },
        [&](const std::string& schedule, Clock::duration limit) {
          EXPECT_TRUE(schedule.empty() || limit >= 10s);
          to_blame = schedule;
          if (!schedule.empty()) blamed.insert(schedule);
        });
  }

  std::vector<Candidate> all = space();
  std::vector<TuningEntry> known;
  MadeUp bench;
  std::map<std::string, TuningEntry> kept;
  int steps = 0;
  std::string to_blame;
  std::set<std::string> blamed;
};

}  // namespace

TEST_F(TuneSearch, FindsTheBestLongBeforeAllAreTried) {
  const SearchResult result = run(10s);  // 200 timings of 2000
  EXPECT_EQ(result.best, "34112");
  EXPECT_DOUBLE_EQ(result.ms, 1);
  EXPECT_LE(result.tried, 200);
  EXPECT_EQ(result.rejected, 0);
  EXPECT_LE(bench.clock.time_since_epoch(), 10s);
  EXPECT_EQ(kept.size(), static_cast<size_t>(result.tried));
  EXPECT_EQ(kept.at("34112").ms.size(), 4u);  // once found, three times at the end
  EXPECT_EQ(kept.at("12300").ms.size(), 4u);
  EXPECT_DOUBLE_EQ(result.default_ms, MadeUp::time_of("12300"));
  EXPECT_GE(steps, result.tried);
}

TEST_F(TuneSearch, AnInterruptedOneIsOfUse) {
  const SearchResult result = run(2s);
  EXPECT_LT(result.ms, 0.8 * MadeUp::time_of("12300")) << result.best;
}

TEST_F(TuneSearch, TheDefaultAndItsNeighboursComeFirst) {
  run(700ms, 1);
  ASSERT_GE(bench.timed.size(), 5u);
  EXPECT_EQ(bench.timed[0], "12300");
  for (size_t i = 1; i < 4; ++i) {
    int steps_away = 0;
    for (size_t k = 0; k < 5; ++k) steps_away += std::abs(bench.timed[i][k] - "12300"[k]);
    EXPECT_LE(steps_away, static_cast<int>(i)) << bench.timed[i];
  }
}

// However many are under way.
TEST_F(TuneSearch, EndsWithinItsBudget) {
  for (const int jobs : {1, 4, 16})
    for (const Clock::duration closing : {0ms, 120ms})
      for (const Clock::duration budget : {0ms, 49ms, 500ms, 3000ms}) {
        bench.prepared.clear(), kept.clear(), bench.closing = closing;
        const Clock::time_point begun = bench.clock;
        const SearchResult result = run(budget, jobs);
        EXPECT_LE(bench.clock - begun, std::max(budget, bench.a_timing)) << jobs << " " << closing / 1ms;
        EXPECT_GE(result.tried, 1);
        if (budget < 100ms) {
          EXPECT_EQ(result.best, "12300");
        }
        if (budget > 1s) {
          EXPECT_GE(result.tried, 40);
        }
      }
}

// One after another they are compared on the whole problem, and refused: that takes time too.
TEST_F(TuneSearch, RefusedFinalistsEndWithTheBudget) {
  for (const Candidate& candidate : all) bench.unequal_as_a_whole.insert(candidate.schedule);
  bench.closing = 300ms;
  const SearchResult result = run(3s);
  EXPECT_LE(bench.clock.time_since_epoch(), 3s);
  EXPECT_EQ(result.best, "12300");
  EXPECT_DOUBLE_EQ(result.ms, MadeUp::time_of("12300"));
  EXPECT_EQ(result.rejected, 2);  // of as many as were tried
}

// The timing that found it was a lucky one.
TEST_F(TuneSearch, TheBestIsNoSlowerThanTheDefaultBesideIt) {
  bench.times["12300"] = {2, 1.5, 1.4, 1.6};
  for (const Candidate& candidate : all)
    if (candidate.schedule != "12300") bench.times[candidate.schedule] = {1.9, 1.7, 1.7, 1.7};
  all.resize(30);
  const SearchResult result = run(1h);
  EXPECT_EQ(result.best, "12300");
  EXPECT_EQ(result.ms, 1.5);
  EXPECT_EQ(result.default_ms, 1.5);
}

TEST_F(TuneSearch, TheBestIsTheFastestOfThoseTimedTogether) {
  all.resize(30);
  for (const Candidate& candidate : all) bench.times[candidate.schedule] = {3};
  bench.times["12300"] = {3, 2.5};
  const std::string lucky = all[5].schedule, steady = all[9].schedule, of_old = all[12].schedule;
  bench.times[lucky] = {0.1, 2.4};
  bench.times[steady] = {2, 2.1};
  known.push_back({{of_old, ""}, {0.2, 0.3}, ""});  // of another clock
  bench.times[of_old] = {2.2};
  const SearchResult result = run(1h);
  EXPECT_EQ(result.best, steady);
  EXPECT_EQ(result.ms, 2.1);
  EXPECT_EQ(result.default_ms, 2.5);
  const std::vector<std::string> last(bench.timed.end() - 12, bench.timed.end());
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(last[i], last[i % 4]);  // in turn
  EXPECT_EQ(last[0], "12300");
}

// T090
TEST_F(TuneSearch, OneThatFailsAloneIsRejected) {
  all.resize(20);
  bench.failing = {all[3].schedule};
  const SearchResult result = run(1h);
  EXPECT_EQ(result.tried, 20);
  EXPECT_EQ(kept.at(all[3].schedule).rejected, "out of memory");
}

// T090
TEST_F(TuneSearch, OneThatTakesTheDeviceAlongIsToBlame) {
  all.resize(20);
  bench.lost = {all[3].schedule};
  EXPECT_THROW(run(1h), kdagen::runtime::DeviceLost);
  EXPECT_EQ(to_blame, all[3].schedule);
}

TEST_F(TuneSearch, NoneIsToBlameInTheEnd) {
  all.resize(20);
  run(1h);
  EXPECT_EQ(to_blame, "");
  EXPECT_EQ(blamed.size(), 19u);
}

TEST_F(TuneSearch, AllAreTriedWhenThereIsTime) {
  all.resize(40);
  const SearchResult result = run(1h);
  EXPECT_EQ(result.tried, 40);
  for (const Candidate& candidate : all) EXPECT_LE(result.ms, MadeUp::time_of(candidate.schedule));
}

// T089
TEST_F(TuneSearch, SpillsAndOtherBitsAreRejected) {
  bench.spilling = {"34112"};
  bench.unequal_anywhere = {"34102", "34012"};
  bench.unequal_as_a_whole = {"34212"};
  const SearchResult result = run(20s);
  EXPECT_DOUBLE_EQ(result.ms, 1.03) << result.best;  // a step of the last coordinate away
  EXPECT_THAT(result.best, ::testing::AnyOf("34111", "34113"));
  EXPECT_EQ(kept.at("34112").rejected, "spills 8 bytes");
  EXPECT_TRUE(kept.at("34112").ms.empty());
  EXPECT_EQ(kept.at("34212").rejected, "dx differs from the default's");
  EXPECT_GE(result.rejected, 2);
  EXPECT_EQ(result.reasons.at("spills N bytes"), 1);
  EXPECT_GE(result.reasons.at("dx differs from the default's"), 1);
}

TEST_F(TuneSearch, ARejectedDefaultIsAnError) {
  bench.spilling = {"12300"};
  EXPECT_THROW(run(1s), kdagen::ToolchainError);
}

TEST_F(TuneSearch, WhatIsKnownIsNotTriedAgain) {
  all.resize(60);
  for (const Candidate& candidate : all)
    if (candidate.schedule != all[7].schedule)
      known.push_back({{candidate.schedule, ""}, {MadeUp::time_of(candidate.schedule)}, ""});
  known[20].rejected = "spills 4 bytes";
  known.push_back({{"of another space", ""}, {0.1}, ""});
  known.push_back({{all[3].schedule, ""}, {}, "spills for another size"});
  const SearchResult result = run(1h);
  EXPECT_EQ(result.tried, 60);
  EXPECT_EQ(result.rejected, 2);
  ASSERT_GE(bench.timed.size(), 2u);
  EXPECT_EQ(bench.timed[0], all[0].schedule);
  EXPECT_EQ(bench.timed[1], all[7].schedule);
  EXPECT_LE(bench.timed.size(), 2u + 3 * 4);  // then the finalists beside the default
  EXPECT_NE(result.best, known[20].text.schedule);
  EXPECT_NE(result.best, all[3].schedule);
}

TEST_F(TuneSearch, CandidatesAreCompiledSideBySide) {
  bench.meet = 3;
  all.resize(12);
  run(1h, 3);
  EXPECT_EQ(bench.most_at_once, 3);
}
