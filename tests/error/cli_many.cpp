// SPDX-License-Identifier: Apache-2.0
// Many of the program at once on one cold cache, and command lines of all kinds.
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/kdagen_process.h"

using namespace kdagen::testing;
using ::testing::HasSubstr;

// Sixteen of them, a fourth with each of four texts.
TEST(CliMany, T081SixteenProcessesOnAColdCache) {
  const Scratch folder = scratch();
  const std::filesystem::path cache = folder.path() / "cache";
  std::vector<std::thread> threads;
  std::vector<Outcome> outcomes(16);
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      outcomes[i] = kdagen::testing::kdagen({"check", i % 2 ? "l2norm" : "rmsnorm", "--pass", "fwd", "--on", "emulator",
                                             "--tokens", "5", "--set", i % 4 < 2 ? "dim=32" : "dim=64"},
                                            {{"KDAGEN_CACHE_DIR", cache.string()}});
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(outcomes[i].code, 0) << outcomes[i].err;
    EXPECT_EQ(outcomes[i].out, outcomes[i % 4].out);
    EXPECT_EQ(outcomes[i].err, outcomes[i % 4].err);
  }
  EXPECT_EQ(listing(cache / "objects").size() % 2, 0u);
  for (const std::string& name : listing(cache / "objects"))
    EXPECT_TRUE(name.ends_with(".bin") || name.ends_with(".json")) << name;
}

// Words that belong to command lines, in any order: an answer or a message, and an exit code that is listed.
TEST(CliMany, CommandLinesOfAllKinds) {
  const std::vector<std::string> commands{"list",  "show", "explain", "ranges", "emit", "run",   "check",
                                          "bench", "tune", "cache",   "doctor", "",     "--help"};
  const std::vector<std::string> words{"l2norm",
                                       "rmsnorm",
                                       "gla",
                                       "/dev/null",
                                       "./",
                                       "--set",
                                       "dim=16",
                                       "dim=0",
                                       "dim=-1",
                                       "dim=1e9",
                                       "chunk=8",
                                       "chunk=99999999999999999999",
                                       "dtype=f64",
                                       "=",
                                       "a=",
                                       "=b",
                                       "schedule=threads=0",
                                       "schedule=",
                                       "schedule=tiles_per_block=99999999",
                                       "save=x",
                                       "save=,",
                                       "eps=nan",
                                       "eps=1e400",
                                       "--pass",
                                       "fwd",
                                       "bwd",
                                       "both",
                                       "--on",
                                       "cpu",
                                       "cuda",
                                       "--stage",
                                       "kda",
                                       "rewritten",
                                       "scheduled",
                                       "cuda",
                                       "--tokens",
                                       "5",
                                       "0",
                                       "-3",
                                       "999999999999",
                                       "--seqlens",
                                       "1,2,3",
                                       "1,,2",
                                       "--heads",
                                       "2",
                                       "--batch",
                                       "--in",
                                       "--out",
                                       "-o",
                                       "--arch",
                                       "sm_90",
                                       "sm_10",
                                       "sm_",
                                       "--tap",
                                       "x",
                                       "dx",
                                       "--budget",
                                       "--json",
                                       "--regime",
                                       "--seed",
                                       "ü",
                                       "\x01",
                                       std::string(3000, 'a'),
                                       "%s%n",
                                       "--orders",
                                       "--base-offset",
                                       "upstream=fp16row",
                                       "layout=htd",
                                       "out.y=f32",
                                       "dtype.x=f32",
                                       "scan=fixed"};
  const Scratch folder = scratch();
  std::mt19937 random(1);
  const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
  int answered = 0;
  for (int i = 0; i < 150; ++i) {
    std::vector<std::string> line{pick(commands)};
    if (random() % 4) line.push_back(words[random() % 3]);
    for (size_t rest = random() % 6; rest > 0; --rest) line.push_back(pick(words));
    if (std::count(line.begin(), line.end(), "-o") || line[0] == "emit")
      line.insert(line.end(), {"-o", (folder.path() / "out").string()});
    const Outcome outcome = kdagen::testing::kdagen(line);
    std::string text;
    for (const std::string& word : line) text += word.substr(0, 40) + " ";
    EXPECT_TRUE(outcome.code >= 0 && outcome.code <= 3) << text << "gives " << outcome.code << "\n" << outcome.err;
    EXPECT_TRUE(!outcome.out.empty() || !outcome.err.empty() || line[0] == "emit") << text << "says nothing";
    answered += outcome.code == 0;
  }
  EXPECT_GT(answered, 5);
}
