// SPDX-License-Identifier: Apache-2.0
#include "runtime/process.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "runtime/warn.h"
#include "tests/common/scratch.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Process, ArgumentsPassUnchangedAndTheExitCodeComesBack) {
  const std::vector<std::string> argv{"sh",         "-c", "printf '%s|' \"$@\"; echo \"$X\" >&2; exit 7", "sh", "a b",
                                      "$HOME; `x`", "ü"};
  const ProcessResult result = run_process(argv, {{}, {{"X", "set"}}});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.output, "a b|$HOME; `x`|ü|set\n");
  EXPECT_EQ(run_process({"sh", "-c", "kill -9 $$"}).exit_code, 128 + 9);
  EXPECT_EQ(run_process({"pwd"}, {"/", {}}).output, "/\n");
  EXPECT_THROW(run_process({"no-such-program"}), kdagen::ToolchainError);
}

TEST(Process, OutputOfAnySize) {
  EXPECT_EQ(run_process({"head", "-c", "3000000", "/dev/zero"}).output, std::string(3000000, '\0'));
}

TEST(Process, WhatDoesNotEndIsStoppedWithWhatItStarted) {
  const Scratch folder = scratch();
  const std::string late = (folder.path() / "late").string();
  WithVariable limit("KDAGEN_TIME_LIMIT", "1");
  // One waits for what it started, one gives up its output and goes on.
  for (const std::string& script :
       {"(sleep 2; touch " + late + ") & echo begun; wait", std::string("echo begun; exec >&- 2>&-; sleep 1000")}) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      run_process({"sh", "-c", script});
      ADD_FAILURE() << script;
    } catch (const kdagen::ToolchainError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("sh did not end within 1 s"), HasSubstr("KDAGEN_TIME_LIMIT"), HasSubstr("begun")));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
  }
  std::this_thread::sleep_for(1500ms);
  EXPECT_FALSE(std::filesystem::exists(late));
}

// As a compiler's wrapper leaves a server.
TEST(Process, ADaemonThatKeepsTheOutputOpenIsNotWaitedFor) {
  const auto begin = std::chrono::steady_clock::now();
  const ProcessResult result = run_process({"sh", "-c", "sleep 30 & echo done; exit 3"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 25s);
  EXPECT_EQ(result.output, "done\n");
  EXPECT_EQ(result.exit_code, 3);
}

TEST(Process, TheLimitIsANumberOfSeconds) {
  std::vector<std::string> warnings;
  set_warning_sink([&](const std::string& message) { warnings.push_back(message); });
  const auto limit = [](const std::optional<std::string>& text) {
    WithVariable set("KDAGEN_TIME_LIMIT", text);
    return time_limit();
  };
  EXPECT_EQ(limit(std::nullopt), 20min);
  EXPECT_EQ(limit("7"), 7s);
  EXPECT_TRUE(warnings.empty());
  for (const char* wrong : {"0", "-1", "1h", "99999999999999999999", " 5"}) {
    EXPECT_EQ(limit(wrong), 20min) << wrong;
    ASSERT_FALSE(warnings.empty()) << wrong;
    EXPECT_THAT(warnings.back(), HasSubstr("KDAGEN_TIME_LIMIT=" + std::string(wrong)));
  }
  set_warning_sink({});
}
