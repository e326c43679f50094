// SPDX-License-Identifier: Apache-2.0
// A slice of `kdagen fuzz` in every run of the tests, and that it would find what it looks for.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tools/fuzz/fuzz.h"

namespace kdagen::fuzz {
namespace {

/// As many specs as a minute takes: always the same ones, so that two runs of the tests say the same of them.
FuzzReport slice(const std::string& on) {
  FuzzRequest request;
  request.on = on;
  request.seed = 2026;
  request.count = std::numeric_limits<int64_t>::max();
  request.seconds = 60;
  return run_fuzz(request);
}

/// `least`: what a slow machine under load and with sanitizers still does.
void expect_sound(const FuzzReport& report, int64_t least) {
  EXPECT_TRUE(report.failures.empty()) << to_text(report);
  EXPECT_GE(report.specs(), least);
  EXPECT_GE(report.seconds, 60);
  EXPECT_LE(report.undecided, 1 + report.specs() / 50);
  EXPECT_GE(report.passed, report.specs() * 4 / 5 - 1) << to_text(report);
}

TEST(Fuzz, ASliceInTheEvaluator) { expect_sound(slice("cpu"), 40); }
TEST(Fuzz, ASliceOnTheEmulator) { expect_sound(slice("emulator"), 3); }

TEST(Fuzz, AFaultInATextIsFoundAndReplayed) {
  FuzzRequest request;
  request.on = "emulator";
  request.seed = 7;
  request.count = 20;
  request.seconds = 20;  // little is made smaller in this time
  bool injected = false;
  request.edit = [&](std::string text) {  // sums over a row take a part of another row
    const std::string exchange = "lane_xor(sum, 1)";
    const size_t at = text.find(exchange);
    if (at == std::string::npos) return text;
    injected = true;
    return text.replace(at, exchange.size(), "lane_xor(sum, 2)");
  };
  request.stop_at_failures = 1;
  const FuzzReport report = run_fuzz(request);
  EXPECT_TRUE(injected);
  ASSERT_EQ(report.failures.size(), 1) << to_text(report);
  const Failure& failure = report.failures.front();
  EXPECT_THAT(failure.spec, testing::HasSubstr("KDAGEN_SPEC(fuzz, fuzz)"));
  FuzzRequest again = request;
  again.replay = failure.replay;
  again.seconds = 0.001;  // no shrinking
  EXPECT_EQ(run_fuzz(again).failures.size(), 1);
  again.edit = nullptr;
  EXPECT_EQ(run_fuzz(again).passed, 1);
  const nlohmann::json json = to_json(report);
  EXPECT_EQ(json.at("failures").at(0).at("replay"), failure.replay);
  EXPECT_EQ(json.at("specs"), report.specs());
}

}  // namespace
}  // namespace kdagen::fuzz
