// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning_store.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/benchmarking.h"
#include "runtime/key_lock.h"
#include "runtime/warn.h"
#include "tests/common/disk.h"
#include "tests/common/row_scale.h"
#include "tests/common/scratch.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

const std::string machine = "100 multiprocessors";

/// 2^12 tiles.
TuningShape shape(std::int64_t tiles = 4096, bool packed = false, std::int64_t tokens = 16384,
                  std::string lengths = "") {
  return {packed, 1, tokens, 4, 1, tiles, std::move(lengths)};
}

const TuningKey key{"0123456789abcdef", "NVRTC 13.1", machine, shape()};

TuningKey with_shape(TuningShape other) { return {key.text_hash, key.compiler, machine, std::move(other)}; }

class TuningStoreTest : public ::testing::Test {
 protected:
  TuningStoreTest() {
    set_warning_sink([this](const std::string& message) { warnings.push_back(message); });
  }
  ~TuningStoreTest() override { set_warning_sink({}); }

  TuningStore store(const std::string& device = "Fake 90", const std::string& arch = "sm_90") const {
    return {place.path(), device, arch, "sample_fwd"};
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& item : std::filesystem::directory_iterator(place.path() / "tuning"))
      names.push_back(item.path().filename());
    return names;
  }

  Scratch place = scratch();
  std::vector<std::string> warnings;
};

}  // namespace

TEST_F(TuningStoreTest, EveryTimingIsKept) {
  store().add_timing(key, {"threads=128", "t"}, 3);
  store().add_timing(key, {"threads=256", "t"}, 2);
  store().add_timing(key, {"threads=128", "t"}, 1);
  store().reject(key, {"threads=512", "t"}, "spills 16 bytes");
  const std::vector<TuningEntry> entries = store().entries(key);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].text, (TunedText{"threads=128", "t"}));
  EXPECT_THAT(entries[0].ms, ElementsAre(3, 1));
  EXPECT_EQ(median_of(entries[0].ms), 2);
  EXPECT_EQ(entries[0].rejected, "");
  EXPECT_THAT(entries[1].ms, ElementsAre(2));
  EXPECT_EQ(entries[2].rejected, "spills 16 bytes");
  EXPECT_TRUE(entries[2].ms.empty());
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(files().size(), 1u);  // no lock, no temporary
}

TEST_F(TuningStoreTest, TimesThatAreNoneAreNotKept) {
  for (const double ms : {0.0, -1.0, std::nan(""), HUGE_VAL}) store().add_timing(key, {"threads=128", "t"}, ms);
  EXPECT_TRUE(store().entries(key).empty());
}

// T084 T086 T087
TEST_F(TuningStoreTest, KeysDoNotMix) {
  store().add_timing(key, {"threads=128", "t"}, 3);
  store().choose(key, {"threads=128", "t"});
  TuningKey text = key, compiler = key, slice = key;
  text.text_hash = "f", compiler.compiler = "nvcc", slice.machine = "14 multiprocessors";
  for (const TuningKey& other : {text, compiler, slice}) {
    EXPECT_TRUE(store().entries(other).empty());
    EXPECT_TRUE(store().choices(other).empty());
  }
  EXPECT_TRUE(store("Fake 80").entries(key).empty());
  EXPECT_TRUE(store("Fake 90", "sm_80").entries(key).empty());
  EXPECT_TRUE(store("Fake-90").entries(key).empty());  // as a file name the same
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(store().entries(key).size(), 1u);
}

// T085
TEST_F(TuningStoreTest, TimesOfEachSizeAreKeptApart) {
  store().add_timing(key, {"threads=128", "t"}, 3);
  for (const TuningShape& other :
       {shape(4097), shape(4096, true), shape(4096, false, 16383), shape(4096, true, 16384, "a")}) {
    EXPECT_TRUE(store().entries(with_shape(other)).empty());
    store().add_timing(with_shape(other), {"threads=128", "t"}, 4);
    const std::vector<TuningEntry> own = store().entries(with_shape(other));
    ASSERT_EQ(own.size(), 1u);
    EXPECT_THAT(own[0].ms, ElementsAre(4));
  }
  EXPECT_THAT(store().entries(key)[0].ms, ElementsAre(3));
}

TEST_F(TuningStoreTest, WhatIsRejectedForOneSizeIsRejectedForAll) {
  store().reject(key, {"threads=512", "t"}, "spills 16 bytes");
  store().add_timing(with_shape(shape(2)), {"threads=256", "t"}, 4);
  const std::vector<TuningEntry> entries = store().entries(with_shape(shape(2)));
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].text.schedule, "threads=256");
  EXPECT_EQ(entries[1].rejected, "spills 16 bytes");
}

// T086
TEST_F(TuningStoreTest, AnotherTextOfAScheduleIsAnotherEntry) {
  store().add_timing(key, {"threads=128", "old"}, 3);
  store().add_timing(key, {"threads=128", "new"}, 2);
  const std::vector<TuningEntry> entries = store().entries(key);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_THAT(entries[0].ms, ElementsAre(3));
  EXPECT_THAT(entries[1].ms, ElementsAre(2));
  EXPECT_EQ(entries[1].text.text_hash, "new");
}

// T085
TEST_F(TuningStoreTest, ChoicesOfTheNearestSizeComeFirst) {
  const auto nearest = [&](const TuningShape& wanted) {
    std::vector<std::string> schedules;
    for (const TunedText& text : store().choices(with_shape(wanted))) schedules.push_back(text.schedule);
    return schedules;
  };
  store().add_timing(key, {"timed", "t"}, 0.1);  // the fastest, but no search ended with it
  EXPECT_THAT(nearest(shape()), ElementsAre());
  store().choose(with_shape(shape(4096, true)), {"packed", "t"});
  store().choose(with_shape(shape(8)), {"small", "t"});
  store().choose(with_shape(shape(1 << 20)), {"first of large", "t"});
  store().choose(with_shape(shape(1 << 20)), {"large", "t"});
  store().choose(with_shape(shape(1 << 20, false, 3)), {"large, otherwise", "t"});
  EXPECT_THAT(nearest(shape(1 << 20, false, 3)), ElementsAre("large, otherwise", "large", "small", "packed"));
  EXPECT_THAT(nearest(shape(1 << 20)), ElementsAre("large", "large, otherwise", "small", "packed"));
  EXPECT_THAT(nearest(shape(2896)), ElementsAre("small", "large", "large, otherwise", "packed"));  // 8 * 362
  EXPECT_THAT(nearest(shape(2897)), ElementsAre("large", "large, otherwise", "small", "packed"));
  EXPECT_EQ(nearest(shape(1 << 20, true))[0], "packed");
  store().reject(key, {"large", "t"}, "dx differs from the default's");
  EXPECT_THAT(nearest(shape(1 << 20)), ElementsAre("large, otherwise", "small", "packed"));
}

// T085
TEST_F(TuningStoreTest, ShapesHaveTheSizesAndCountTheTilesOfAllHeads) {
  Problem problem;
  problem.batch = problem.sequences = 2, problem.tokens = 9, problem.heads = 5;  // chunk 4: 2 * 3 * 5 = 30 tiles
  EXPECT_EQ(tuning_shape(row_scale_manifest(), problem, {}), (TuningShape{false, 2, 9, 5, 2, 30, ""}));
  problem.batch = 1, problem.sequences = 8, problem.offsets = OffsetType::i32;  // (3 + 8) * 5 = 55
  const TuningShape unknown = tuning_shape(row_scale_manifest(), problem, {});
  EXPECT_EQ(unknown, (TuningShape{true, 1, 9, 5, 8, 55, ""}));
  const TuningShape one = tuning_shape(row_scale_manifest(), problem, {9, 0, 0, 0, 0, 0, 0, 0});
  const TuningShape other = tuning_shape(row_scale_manifest(), problem, {8, 1, 0, 0, 0, 0, 0, 0});
  EXPECT_NE(one, unknown);
  EXPECT_NE(one, other);
  EXPECT_EQ(one.tiles, 55);
}

// T084 T087
TEST_F(TuningStoreTest, TheMachineIsWhatASliceOrAnotherDriverChanges) {
  DeviceInfo device;
  device.multiprocessors = 132, device.shared_bytes_per_multiprocessor = 233472, device.shared_bytes_per_block = 232448;
  EXPECT_EQ(machine_text(device, 13000),
            "132 multiprocessors, 233472 bytes of shared memory each, 232448 a block, driver 13.0");
  EXPECT_THAT(machine_text(device, 12080), HasSubstr("driver 12.8"));
}

// T084 T086
TEST_F(TuningStoreTest, DamageIsKeptAsideWithAWarning) {
  const std::filesystem::path file = store().file();
  const auto edited = [](const std::string& good, const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
  store().add_timing(key, {"threads=128", "t"}, 3);
  const std::string good = slurp(file);
  const std::vector<std::string> damages{"",
                                         "\xff\xfe",
                                         "[]",
                                         "null",
                                         good.substr(0, good.size() / 2),
                                         good + "x",
                                         std::string(5000, '['),
                                         edited(good, "\"schema\": 2", "\"schema\": 1"),  // of an older version
                                         edited(good, "\"schema\": 2", "\"schema\": 3"),
                                         edited(good, "sm_90", "sm_80"),
                                         edited(good, "Fake 90", "Fake 80"),
                                         edited(good, "sample_fwd", "sample_bwd"),
                                         edited(good, "3.0", "-3.0"),
                                         edited(good, "3.0", "null"),
                                         edited(good, "3.0", "\"3\""),
                                         edited(good, "3.0", ""),
                                         edited(good, "\"entries\"", "\"entry\""),
                                         edited(good, "\"tiles\": 4096", "\"tiles\": 1e9"),
                                         edited(good, "\"tiles\": 4096", "\"tiles\": 0"),
                                         edited(good, "\"choice\": null", "\"choice\": {}"),
                                         edited(good, "\"machine\"", "\"machines\""),
                                         edited(good, "false", "0")};
  for (const std::string& damage : damages) {
    warnings.clear();
    set_warning_sink([this](const std::string& message) { warnings.push_back(message); });
    spill(file, damage);
    EXPECT_TRUE(store().entries(key).empty()) << damage;
    ASSERT_EQ(warnings.size(), 1u) << damage;
    EXPECT_THAT(warnings[0], HasSubstr(".damaged"));
    EXPECT_EQ(slurp(file.string() + ".damaged"), damage);
    store().add_timing(key, {"threads=256", "t"}, 2);
    EXPECT_EQ(store().entries(key).size(), 1u);
    EXPECT_EQ(warnings.size(), 1u);
  }
  std::filesystem::remove(file);
  std::filesystem::create_directories(file / "inside");
  store().add_timing(key, {"threads=256", "t"}, 2);
  EXPECT_EQ(store().entries(key).size(), 1u);
}

// Whatever the bytes, they are read as timings, or kept aside.
TEST_F(TuningStoreTest, RandomDamageIsReadOrKeptAside) {
  store().add_timing(key, {"threads=128", "t"}, 3);
  store().reject(key, {"threads=512", "t"}, "spills 16 bytes");
  const std::filesystem::path file = store().file();
  const std::string good = slurp(file);
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string text = good;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 20);
      else if (random() % 2)
        text[at] = static_cast<char>(random());
      else
        text.insert(at, "\"{}[],:0-9e." + random() % 12, 1);
      if (text.empty()) text = " ";
    }
    spill(file, text);
    for (const TuningEntry& entry : store().entries(key))
      for (const double ms : entry.ms) EXPECT_TRUE(ms > 0 && std::isfinite(ms)) << text;
    EXPECT_TRUE(!std::filesystem::exists(file) || slurp(file) == text);
    store().add_timing(key, {"threads=256", "t"}, 2);
    const std::vector<TuningEntry> entries = store().entries(key);
    EXPECT_TRUE(std::any_of(entries.begin(), entries.end(), [](const TuningEntry& entry) {
      return entry.text.schedule == "threads=256";
    })) << text;
  }
}

TEST_F(TuningStoreTest, AFolderThatCannotBeWrittenCostsTheTimingsOnly) {
  spill(place.path() / "tuning", "a file in the folder's place");
  store().add_timing(key, {"threads=128", "t"}, 3);
  EXPECT_TRUE(store().entries(key).empty());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("timings are not kept"));
}

// T108
TEST_F(TuningStoreTest, AFullDiskCostsTheNewTimingsOnly) {
  if (!with_disk(place.path() / "disk", "16k", false, [&] {
        const TuningStore on_disk(place.path() / "disk", "Fake 90", "sm_90", "sample_fwd");
        on_disk.add_timing(key, {"threads=128", "t"}, 3);
        EXPECT_TRUE(warnings.empty());
        spill(place.path() / "disk/filler", std::string(1 << 20, 'x'));
        const std::string before = slurp(on_disk.file());
        on_disk.add_timing(key, {"threads=256", "t"}, 2);
        EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("timings are not kept"), HasSubstr("No space left"))));
        EXPECT_EQ(slurp(on_disk.file()), before);
        EXPECT_EQ(on_disk.entries(key).size(), 1u);
        std::filesystem::remove(place.path() / "disk/filler");
        on_disk.add_timing(key, {"threads=256", "t"}, 2);
        EXPECT_EQ(on_disk.entries(key).size(), 2u);
        for (const auto& item : std::filesystem::directory_iterator(on_disk.file().parent_path()))
          EXPECT_EQ(item.path(), on_disk.file());  // no lock, no temporary
      }))
    GTEST_SKIP() << "no disk may be mounted here";
}

// T108
TEST_F(TuningStoreTest, AReadOnlyDiskIsReadStill) {
  const std::filesystem::path disk = place.path() / "disk";
  if (!with_disk(disk, "1m", false, [&] {
        const TuningStore on_disk(disk, "Fake 90", "sm_90", "sample_fwd");
        on_disk.add_timing(key, {"threads=128", "t"}, 3);
        ASSERT_EQ(::mount("", disk.c_str(), "", MS_REMOUNT | MS_RDONLY, nullptr), 0);
        EXPECT_EQ(on_disk.entries(key).size(), 1u);
        EXPECT_TRUE(warnings.empty());
        on_disk.add_timing(key, {"threads=256", "t"}, 2);
        EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("timings are not kept"), HasSubstr("Read-only"))));
        EXPECT_EQ(on_disk.entries(key).size(), 1u);
      }))
    GTEST_SKIP() << "no disk may be mounted here";
}

// T082
TEST_F(TuningStoreTest, T082FourProcessesWithAShapeEachKeepEachOthersTimings) {
  constexpr int processes = 4, rounds = 12;
  const auto own = [](int process) { return with_shape({.packed = process % 2 == 1, .tokens = 16 * (process + 1)}); };
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process)
    children.push_back(start_child([&, process] {
      for (int i = 0; i < rounds; ++i) {
        store().add_timing(key, {"shared", "t"}, 1 + process);
        store().add_timing(own(process), {"of process " + std::to_string(process), "t"}, 1 + i);
        ::usleep(20000);  // as if something were timed
      }
      return 0;
    }));
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  for (int process = 0; process < processes; ++process) {
    const std::vector<TuningEntry> entries = store().entries(own(process));
    ASSERT_EQ(entries.size(), 1u) << process;
    EXPECT_EQ(entries[0].text.schedule, "of process " + std::to_string(process));
    EXPECT_EQ(entries[0].ms.size(), 1u * rounds);
  }
  ASSERT_EQ(store().entries(key).size(), 1u);
  EXPECT_EQ(store().entries(key)[0].ms.size(), 1u * processes * rounds);
  EXPECT_TRUE(warnings.empty());
}

// T082
TEST_F(TuningStoreTest, T082AHundredKilledWritersLeaveAWholeFile) {
  std::size_t known = 0;
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    const std::string before = slurp(store().file());
    const pid_t child = start_child([&] {
      for (int i = 1;; ++i) store().add_timing(key, {std::string(200, 'a' + i % 20), "t"}, i);
      return 0;
    });
    for (int i = 0; i < 30000 && slurp(store().file()) == before; ++i) ::usleep(1000);
    ::usleep(static_cast<useconds_t>(137 * round % 4000));  // other moments of a write
    ::kill(child, SIGKILL);
    EXPECT_EQ(wait_for(child), 128 + SIGKILL);
    std::size_t count = 0;
    for (const TuningEntry& entry : store().entries(key)) count += entry.ms.size();
    EXPECT_GT(count, known);  // what was written stays, and is more each time
    known = count;
  }
  EXPECT_TRUE(warnings.empty());
  EXPECT_FALSE(std::filesystem::exists(store().file().string() + ".damaged"));
}

// T082
TEST_F(TuningStoreTest, AStoppedHolderOfTheLockLosesNothing) {
  store().add_timing(key, {"threads=128", "t"}, 3);
  constexpr std::chrono::milliseconds patience(200);
  const TuningStore impatient(place.path(), "Fake 90", "sm_90", "sample_fwd", patience);
  const std::filesystem::path file = store().file();
  const std::string before = slurp(file);
  {
    const KeyLock holder(file.string() + ".lock", std::chrono::milliseconds(0));
    ASSERT_EQ(holder.state(), KeyLock::State::held);
    impatient.add_timing(key, {"threads=256", "t"}, 2);
    EXPECT_EQ(slurp(file), before);
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i) impatient.add_timing(key, {"threads=256", "t"}, 2);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 8 * patience);  // waited for once, not each time
    EXPECT_EQ(impatient.entries(key).size(), 1u);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr("timings are not kept: another process has held"));
    spill(file, "damage");  // which the holder may be about to replace
    EXPECT_TRUE(impatient.entries(key).empty());
    EXPECT_EQ(slurp(file), "damage");
    spill(file, before);
  }
  impatient.add_timing(key, {"threads=256", "t"}, 2);
  EXPECT_EQ(store().entries(key).size(), 2u);
}
