// SPDX-License-Identifier: Apache-2.0
// `bench` and `run --on cuda` from end to end on a stand-in driver, whose kernels write nothing: what they print.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/common/run_case.h"

using namespace kdagen::testing;
using ::testing::ElementsAre;

namespace {

const Environment stand_in{{"KDAGEN_LIBCUDA", KDAGEN_FAKE_CUDA}};
const std::vector<std::string> small{"--tokens", "40", "--heads", "3", "--batch", "2"};

bool has_cuda_compiler() {
  const auto report = nlohmann::json::parse(kdagen::testing::kdagen({"doctor", "--json"}).out);
  for (const auto& check : report["checks"])
    if ((check["name"] == "nvcc" || check["name"] == "nvrtc") && check["ok"]) return true;
  return false;
}

}  // namespace

TEST(RunBench, JsonOnAStandInDriver) {
  if (!has_cuda_compiler()) GTEST_SKIP() << "no CUDA compiler";
  std::vector<std::string> command{"bench", "rmsnorm", "--on", "cuda", "--json"};
  command.insert(command.end(), small.begin(), small.end());
  const Outcome outcome = kdagen::testing::kdagen(command, stand_in);
  EXPECT_EQ(outcome.code, 1) << outcome.err;  // nothing is computed, so the check fails
  const auto report = nlohmann::ordered_json::parse(outcome.out);
  EXPECT_EQ(report["spec"], "rmsnorm");
  ASSERT_EQ(report["runs"].size(), 2u);
  std::vector<std::string> keys;
  for (const auto& [key, value] : report["runs"][0].items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("direction", "ms", "bytes", "gbps", "copy_gbps", "fraction_of_copy", "config",
                                "text_hash", "registers", "spill_bytes", "occupancy", "roofline_ms", "launches",
                                "call_us", "fresh_call_us", "plain_launches_us", "load_ms", "verified"));
  const int64_t elements = 2 * 40 * 3 * 128;
  const auto &fwd = report["runs"][0], &bwd = report["runs"][1];
  EXPECT_EQ(fwd["direction"], "fwd");
  EXPECT_EQ(bwd["direction"], "bwd");
  EXPECT_EQ(fwd["bytes"], elements * (2 + 2) + 128 * 4);          // x, y in bf16; weight
  EXPECT_EQ(bwd["bytes"], elements * (2 + 4 + 2) + 2 * 128 * 4);  // x, dx in bf16, dy in f32; weight and dweight
  EXPECT_EQ(fwd["ms"], 1.5);                                      // as every pair of the stand-in's events
  EXPECT_EQ(fwd["verified"], false);
  EXPECT_EQ(fwd["launches"], 1);
  EXPECT_EQ(bwd["launches"], 3);  // tiles, parameter sums of the segments, the rest
  EXPECT_GT(fwd["call_us"], 0);
  EXPECT_GT(fwd["fresh_call_us"], 0);
  EXPECT_GT(fwd["plain_launches_us"], 0);
  EXPECT_GT(fwd["load_ms"], 0);
  EXPECT_NEAR(fwd["gbps"].get<double>() * 1.5e6, fwd["bytes"].get<double>(), 1);
  EXPECT_NEAR(fwd["fraction_of_copy"].get<double>(), fwd["gbps"].get<double>() / fwd["copy_gbps"].get<double>(), 1e-9);
}

TEST(RunBench, ElementsThatAKernelLeavesOutAreNan) {
  if (!has_cuda_compiler()) GTEST_SKIP() << "no CUDA compiler";
  const RunCase call("rmsnorm", {"dim=16"}, {1, 5, 2});
  const std::string in = (call.folder() / "in.safetensors").string();
  kdagen::runtime::write_safetensors(in, call.inputs("fwd"));
  const Outcome outcome = kdagen::testing::kdagen(
      {"run", "rmsnorm", "--pass", "fwd", "--on", "cuda", "--in", in, "--out", call.out().string(), "--set", "dim=16"},
      stand_in);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const HostTensor y = kdagen::runtime::read_safetensors(call.out()).tensors.at("y");
  for (int64_t i = 0; i < y.elements(); ++i) ASSERT_TRUE(std::isnan(y.get(i)));
}

TEST(RunTune, ADefaultThatFailsItsCheckIsNotTuned) {
  if (!has_cuda_compiler()) GTEST_SKIP() << "no CUDA compiler";
  const Outcome outcome = kdagen::testing::kdagen(
      {"tune", "rmsnorm", "--on", "cuda", "--json", "--pass", "fwd", "--tokens", "40", "--heads", "3"}, stand_in);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("the default schedule does not pass its check"));
}
