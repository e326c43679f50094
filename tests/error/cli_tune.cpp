// SPDX-License-Identifier: Apache-2.0
// `tune` where it cannot work, and `schedule=tuned` where nothing has been tuned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/common/kdagen_process.h"

using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

const Environment no_driver{{"KDAGEN_LIBCUDA", "/nowhere/libcuda.so"}};

Outcome tune(const std::vector<std::string>& more) {
  std::vector<std::string> command{"tune", "rmsnorm"};
  command.insert(command.end(), more.begin(), more.end());
  const Outcome outcome = kdagen::testing::kdagen(command, no_driver);
  EXPECT_EQ(outcome.out, "");
  return outcome;
}

std::string refused(const std::vector<std::string>& more) {
  const Outcome outcome = tune(more);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  return outcome.err;
}

}  // namespace

TEST(CliTune, ABudgetThatIsNone) {
  for (const char* budget : {"60", "abc", "60parsecs", "", "1e400s", "nan s", "60s60s"})
    EXPECT_THAT(refused({"--on", "cuda", "--budget", budget}), HasSubstr("--budget")) << budget;
  for (const char* budget : {"0s", "-5s", "0.0m"})
    EXPECT_THAT(refused({"--on", "cuda", "--budget=" + std::string(budget)}),
                AllOf(HasSubstr("--budget"), HasSubstr("500ms")))
        << budget;
}

TEST(CliTune, ABudgetInAnyUnitPassesToTheSearchForADevice) {
  for (const char* budget : {"60s", "2m", "500ms", "1.5m", "90 s"}) {
    const Outcome outcome = tune({"--on", "cuda", "--budget", budget});
    EXPECT_EQ(outcome.code, 3) << budget;
    EXPECT_THAT(outcome.err, HasSubstr("/nowhere/libcuda.so")) << budget;
  }
}

TEST(CliTune, ArgumentsThatDoNotPass) {
  EXPECT_THAT(refused({}), AllOf(HasSubstr("--on cuda"), HasSubstr("--list")));
  refused({"--on", "emulator"});
  refused({"--on", "cuda", "--pass", "forward"});
  refused({"--on", "cuda", "--heads", "0"});
  EXPECT_THAT(refused({"--on", "cuda", "--tokens", "8", "--seqlens", "4,4"}),
              AllOf(HasSubstr("--tokens"), HasSubstr("--seqlens")));
  EXPECT_THAT(refused({"--on", "cuda", "--set", "schedule=baseline"}),
              AllOf(HasSubstr("schedule=baseline"), HasSubstr("leave the option out")));
  EXPECT_THAT(refused({"--on", "cuda", "--set", "chnk=8"}), HasSubstr("did you mean chunk?"));
}

TEST(CliTune, TheListTakesNoDeviceAndNothingThatNeedsOne) {
  EXPECT_THAT(refused({"--list", "--on", "cuda"}), HasSubstr("neither --on"));
  EXPECT_THAT(refused({"--list", "--retime", "2"}), HasSubstr("nor --retime"));
  EXPECT_THAT(refused({"--on", "cuda", "--arch", "sm_90"}), HasSubstr("goes with --list"));
  EXPECT_THAT(refused({"--list", "--arch", "sm_70"}), HasSubstr("sm_80"));
}

TEST(CliTune, TheListHasTheDefaultFirst) {
  const std::vector<std::string> list{"tune", "rmsnorm", "--pass", "fwd", "--list", "--arch", "sm_80"};
  const Outcome text = kdagen::testing::kdagen(list, no_driver);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.err, "");
  const std::string first = text.out.substr(0, text.out.find('\n'));
  ASSERT_EQ(first.find("fwd   threads="), 0u);
  const auto emitted = [](const std::string& schedule) {  // without the header, which names the options
    const std::string out =
        kdagen::testing::kdagen(
            {"emit", "rmsnorm", "--pass", "fwd", "--arch", "sm_80", "--set", "schedule=" + schedule}, no_driver)
            .out;
    return out.substr(out.find("#include"));
  };
  EXPECT_EQ(emitted(first.substr(6)), emitted("default"));
  std::vector<std::string> json = list;
  json.push_back("--json");
  const auto report = nlohmann::json::parse(kdagen::testing::kdagen(json, no_driver).out);
  EXPECT_EQ(report["spec"], "rmsnorm");
  ASSERT_EQ(report["runs"].size(), 1u);
  EXPECT_EQ(report["runs"][0]["direction"], "fwd");
  std::string lines;
  for (const auto& schedule : report["runs"][0]["schedules"]) lines += "fwd   " + schedule.get<std::string>() + "\n";
  EXPECT_EQ(lines, text.out);
}

TEST(CliTune, TunedWithoutADeviceIsTheDefault) {
  const Outcome tuned = kdagen::testing::kdagen({"emit", "rmsnorm", "--set", "schedule=tuned"}, no_driver);
  EXPECT_EQ(tuned.code, 0);
  EXPECT_THAT(tuned.err, AllOf(HasSubstr("note: schedule=tuned is the default schedule here"), HasSubstr("no device")));
  const Outcome plain = kdagen::testing::kdagen({"emit", "rmsnorm"}, no_driver);
  EXPECT_EQ(plain.err, "");
  EXPECT_EQ(tuned.out, plain.out);
}
