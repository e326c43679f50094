// SPDX-License-Identifier: Apache-2.0
// Specs whose exponents are not proven: refused wherever text would come of them, with the line and what would pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/common/kdagen_process.h"

using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

const std::vector<std::string> too_deep{"--set", "lower_bound=-6"};  // 16 * 6 nats = 138.5 > 127 log2 units

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST(CliRefused, CommandsThatNeedText) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"emit", "kda_k1"},
                                                  {"show", "kda_k1", "--stage", "cuda"},
                                                  {"show", "kda_k1", "--stage", "ptx"},
                                                  {"check", "kda_k1", "--on", "cpu"},
                                                  {"check", "kda_k1", "--on", "emulator"},
                                                  {"bench", "kda_k1", "--on", "cuda"},
                                                  {"tune", "kda_k1", "--on", "cuda"}}) {
    const Outcome outcome = kdagen::testing::kdagen(with(command, too_deep));
    EXPECT_EQ(outcome.code, 2) << command[0];
    EXPECT_TRUE(outcome.out.empty()) << command[0];
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("specs/kda_k1.cpp:"), HasSubstr("2^(-g_c)"), HasSubstr("lower_bound")))
        << command[0];
  }
}

TEST(CliRefused, NothingIsWritten) {
  const Scratch folder = scratch();
  const std::string target = (folder.path() / "kernels").string();
  EXPECT_EQ(kdagen::testing::kdagen(with({"emit", "kda_k1", "-o", target}, too_deep)).code, 2);
  EXPECT_THAT(listing(folder.path()), IsEmpty());
}

TEST(CliRefused, RangesTell) {
  const Outcome outcome = kdagen::testing::kdagen(with({"ranges", "kda_k1", "--json"}, too_deep));
  EXPECT_EQ(outcome.code, 1);
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["ok"], false);
  int refused = 0;
  for (const auto& value : report["values"]) {
    if (value["verdict"] != "refused") continue;
    ++refused;
    EXPECT_NE(value["advice"], "") << value["name"];
  }
  EXPECT_GE(refused, 1);
}

TEST(CliRefused, ProgramsAndFormulasStillPrint) {
  for (const char* stage : {"spec", "kda", "derived", "rewritten", "ranges"})
    EXPECT_EQ(kdagen::testing::kdagen(with({"show", "kda_k1", "--stage", stage}, too_deep)).code, 0) << stage;
  EXPECT_EQ(kdagen::testing::kdagen(with({"explain", "kda_k1"}, too_deep)).code, 0);
}

TEST(CliRefused, FormsThatPass) {
  EXPECT_EQ(kdagen::testing::kdagen(with({"ranges", "kda_k1", "--set", "anchor=static"}, too_deep)).code, 0);
  EXPECT_EQ(kdagen::testing::kdagen(with({"ranges", "kda_k1", "--set", "chunk=8"}, too_deep)).code, 0);
}

// T003
TEST(CliRefused, HalfPrecisionCannotHoldGrowingFactors) {
  const Outcome outcome = kdagen::testing::kdagen({"emit", "kda_k1", "--set", "out=fp16"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("k_i"), HasSubstr("fp16"), HasSubstr("specs/kda_k1.cpp:")));
}
