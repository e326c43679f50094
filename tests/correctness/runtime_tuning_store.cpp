// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning_store.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/key_lock.h"
#include "runtime/warn.h"
#include "tests/common/row_scale.h"
#include "tests/common/scratch.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

const TuningKey key{"0123456789abcdef", "NVRTC 13.1", {false, 12}};

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
  store().add_timing(key, "threads=128", 3);
  store().add_timing(key, "threads=256", 2);
  store().add_timing(key, "threads=128", 1);
  store().reject(key, "threads=512", "spills 16 bytes");
  const std::vector<TuningEntry> entries = store().entries(key);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].schedule, "threads=128");
  EXPECT_THAT(entries[0].ms, ElementsAre(3, 1));
  EXPECT_EQ(entries[0].median(), 2);
  EXPECT_EQ(entries[0].rejected, "");
  EXPECT_THAT(entries[1].ms, ElementsAre(2));
  EXPECT_EQ(entries[2].rejected, "spills 16 bytes");
  EXPECT_TRUE(entries[2].ms.empty());
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(files().size(), 1u);  // no lock, no temporary
}

TEST_F(TuningStoreTest, TimesThatAreNoneAreNotKept) {
  for (const double ms : {0.0, -1.0, std::nan(""), HUGE_VAL}) store().add_timing(key, "threads=128", ms);
  EXPECT_TRUE(store().entries(key).empty());
}

// T084 T085 T086 T087
TEST_F(TuningStoreTest, KeysDoNotMix) {
  store().add_timing(key, "threads=128", 3);
  for (const TuningKey& other :
       {TuningKey{"f", key.compiler, key.shape}, TuningKey{key.text_hash, "nvcc", key.shape},
        TuningKey{key.text_hash, key.compiler, {true, 12}}, TuningKey{key.text_hash, key.compiler, {false, 13}}})
    EXPECT_TRUE(store().entries(other).empty());
  EXPECT_TRUE(store("Fake 80").entries(key).empty());
  EXPECT_TRUE(store("Fake 90", "sm_80").entries(key).empty());
  EXPECT_TRUE(store("Fake-90").entries(key).empty());  // as a file name the same
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(store().entries(key).size(), 1u);
}

TEST_F(TuningStoreTest, NearestShapeClass) {
  EXPECT_FALSE(store().nearest(key));
  for (const ShapeClass& shape : {ShapeClass{true, 12}, ShapeClass{false, 3}, ShapeClass{false, 20}})
    store().add_timing({key.text_hash, key.compiler, shape}, "threads=128", 3);
  const auto nearest = [&](bool packed, int size) {
    return store().nearest({key.text_hash, key.compiler, {packed, size}});
  };
  EXPECT_EQ(nearest(false, 12), (ShapeClass{false, 20}));
  EXPECT_EQ(nearest(false, 5), (ShapeClass{false, 3}));
  EXPECT_EQ(nearest(true, 20), (ShapeClass{true, 12}));
  EXPECT_FALSE(store().nearest({"f", key.compiler, key.shape}));
}

// T085
TEST_F(TuningStoreTest, ShapeClassCountsTilesOfAllHeads) {
  Problem problem;
  problem.batch = problem.sequences = 2, problem.tokens = 9, problem.heads = 5;  // chunk 4: 2 * 3 * 5 = 30 tiles
  EXPECT_EQ(shape_class(row_scale_manifest(), problem), (ShapeClass{false, 4}));
  problem.batch = 1, problem.sequences = 8, problem.offsets = OffsetType::i32;  // (3 + 8) * 5 = 55
  EXPECT_EQ(shape_class(row_scale_manifest(), problem), (ShapeClass{true, 5}));
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
  store().add_timing(key, "threads=128", 3);
  const std::string good = slurp(file);
  const std::vector<std::string> damages{"",
                                         "\xff\xfe",
                                         "[]",
                                         "null",
                                         good.substr(0, good.size() / 2),
                                         good + "x",
                                         std::string(5000, '['),
                                         edited(good, "\"schema\": 1", "\"schema\": 2"),
                                         edited(good, "sm_90", "sm_80"),
                                         edited(good, "Fake 90", "Fake 80"),
                                         edited(good, "sample_fwd", "sample_bwd"),
                                         edited(good, "3.0", "-3.0"),
                                         edited(good, "3.0", "null"),
                                         edited(good, "3.0", "\"3\""),
                                         edited(good, "3.0", ""),
                                         edited(good, "\"entries\"", "\"entry\""),
                                         edited(good, "\"log2_tiles\": 12", "\"log2_tiles\": 1e9"),
                                         edited(good, "false", "0")};
  for (const std::string& damage : damages) {
    warnings.clear();
    set_warning_sink([this](const std::string& message) { warnings.push_back(message); });
    spill(file, damage);
    EXPECT_TRUE(store().entries(key).empty()) << damage;
    ASSERT_EQ(warnings.size(), 1u) << damage;
    EXPECT_THAT(warnings[0], HasSubstr(".damaged"));
    EXPECT_EQ(slurp(file.string() + ".damaged"), damage);
    store().add_timing(key, "threads=256", 2);
    EXPECT_EQ(store().entries(key).size(), 1u);
    EXPECT_EQ(warnings.size(), 1u);
  }
  std::filesystem::remove(file);
  std::filesystem::create_directories(file / "inside");
  store().add_timing(key, "threads=256", 2);
  EXPECT_EQ(store().entries(key).size(), 1u);
}

// Whatever the bytes, they are read as timings, or kept aside.
TEST_F(TuningStoreTest, RandomDamageIsReadOrKeptAside) {
  store().add_timing(key, "threads=128", 3);
  store().reject(key, "threads=512", "spills 16 bytes");
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
    store().add_timing(key, "threads=256", 2);
    const std::vector<TuningEntry> entries = store().entries(key);
    EXPECT_TRUE(std::any_of(entries.begin(), entries.end(), [](const TuningEntry& entry) {
      return entry.schedule == "threads=256";
    })) << text;
  }
}

TEST_F(TuningStoreTest, AFolderThatCannotBeWrittenCostsTheTimingsOnly) {
  spill(place.path() / "tuning", "a file in the folder's place");
  store().add_timing(key, "threads=128", 3);
  EXPECT_TRUE(store().entries(key).empty());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("timings are not kept"));
}

// T082
TEST_F(TuningStoreTest, TwoProcessesKeepEachOthersTimings) {
  constexpr int processes = 2, rounds = 12;
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process)
    children.push_back(start_child([&, process] {
      for (int i = 0; i < rounds; ++i) {
        store().add_timing(key, "shared", 1 + process);
        store().add_timing(key, "of process " + std::to_string(process), 1 + i);
        ::usleep(20000);  // as if something were timed
      }
      return 0;
    }));
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  const std::vector<TuningEntry> entries = store().entries(key);
  ASSERT_EQ(entries.size(), 3u);
  for (const TuningEntry& entry : entries)
    EXPECT_EQ(entry.ms.size(), entry.schedule == "shared" ? 2u * rounds : 1u * rounds);
  EXPECT_TRUE(warnings.empty());
}

// T082
TEST_F(TuningStoreTest, AKilledWriterLeavesAWholeFile) {
  std::size_t known = 0;
  for (int round = 0; round < 6; ++round) {
    const std::string before = slurp(store().file());
    const pid_t child = start_child([&] {
      for (int i = 1;; ++i) store().add_timing(key, std::string(200, 'a' + i % 20), i);
      return 0;
    });
    for (int i = 0; i < 3000 && slurp(store().file()) == before; ++i) ::usleep(10000);
    ::usleep(static_cast<useconds_t>(1700 * round));
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
  store().add_timing(key, "threads=128", 3);
  const TuningStore impatient(place.path(), "Fake 90", "sm_90", "sample_fwd", std::chrono::milliseconds(30));
  const std::filesystem::path file = store().file();
  const std::string before = slurp(file);
  {
    const KeyLock holder(file.string() + ".lock", std::chrono::milliseconds(0));
    ASSERT_EQ(holder.state(), KeyLock::State::held);
    impatient.add_timing(key, "threads=256", 2);
    EXPECT_EQ(slurp(file), before);
    EXPECT_EQ(impatient.entries(key).size(), 1u);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr("timings are not kept: another process has held"));
    spill(file, "damage");  // which the holder may be about to replace
    EXPECT_TRUE(impatient.entries(key).empty());
    EXPECT_EQ(slurp(file), "damage");
    spill(file, before);
  }
  impatient.add_timing(key, "threads=256", 2);
  EXPECT_EQ(store().entries(key).size(), 2u);
}
