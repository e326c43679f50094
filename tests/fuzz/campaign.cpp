// SPDX-License-Identifier: Apache-2.0
// A slice of `kdagen fuzz` in every run of the tests, and that it would find what it looks for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tools/fuzz/fuzz.h"

namespace kdagen::fuzz {
namespace {

FuzzReport slice(const std::string& on, int64_t count, double seconds) {
  FuzzRequest request;
  request.on = on;
  request.seed = 2026;
  request.count = count;
  request.seconds = seconds;
  return run_fuzz(request);
}

void expect_sound(const FuzzReport& report) {
  EXPECT_TRUE(report.failures.empty()) << to_text(report);
  EXPECT_GT(report.passed, 0);
  EXPECT_LE(report.undecided, report.specs() / 50);
  EXPECT_GT(report.passed, report.specs() * 4 / 5) << to_text(report);
}

TEST(Fuzz, ASliceInTheEvaluator) { expect_sound(slice("cpu", 400, 40)); }
TEST(Fuzz, ASliceOnTheEmulator) { expect_sound(slice("emulator", 12, 40)); }

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
