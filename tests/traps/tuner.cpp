// SPDX-License-Identifier: Apache-2.0
// T089 of docs/traps.md: schedules from all over the tuner's space, under the emulator's checks. The other traps of
// tuning are tests/correctness/tune_*.cpp and runtime_tuning_store.cpp.
#include <chrono>
#include <iostream>

#include <gtest/gtest.h>

#include "codegen/pipeline.h"
#include "tests/common/emulated_program.h"
#include "tools/tune/space.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

using Part = std::tuple<std::string, std::string, Pass>;  // spec, dim

class Tuner : public ::testing::TestWithParam<Part> {};

std::vector<std::string> schedules(const EmulatedProgram& program, Direction direction) {
  Compilation compilation(program.graph(), direction, {});
  std::vector<std::string> names;
  for (const tune::Candidate& candidate : tune::candidates(compilation, "sm_90", {232448, 2048}))
    names.push_back(candidate.schedule);
  return names;
}

std::vector<Part> parts() {
  std::vector<Part> all{{"rmsnorm", "96", Pass::bwd},
                        {"rmsnorm", "128", Pass::fwd},
                        {"gla", "64", Pass::fwd},
                        {"gla", "96", Pass::bwd},
                        {"gdn", "128", Pass::bwd}};
#ifdef KDAGEN_HAS_KDA_K1
  all.insert(all.end(), {{"kda_k1", "64", Pass::bwd}, {"kda_k1", "96", Pass::fwd}, {"kda_k1", "128", Pass::bwd}});
#endif
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Part>& test) {
  const auto& [spec, dim, pass] = test.param;
  return spec + "_" + dim + (pass == Pass::bwd ? "_bwd" : "_fwd");
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Shipped, Tuner, ::testing::ValuesIn(parts()), name_of);

// In an order whose every beginning is spread over the space; as many as a few seconds allow, and at least five.
TEST_P(Tuner, T089CandidatesGiveTheDefaultsBits) {
  const auto& [spec, dim, pass] = GetParam();
  const Settings settings{{"dim", dim}};
  EmulatedProgram plain(spec, settings);
  const std::vector<std::string> all = schedules(plain, pass == Pass::bwd ? Direction::bwd : Direction::fwd);
  ASSERT_GE(all.size(), 20u);
  const std::vector<std::vector<int64_t>> packings{{1}, {17, 0, 65}, {1000, 3}};
  std::vector<std::unique_ptr<Call>> expected;
  for (const std::vector<int64_t>& lengths : packings) {
    expected.push_back(std::make_unique<Call>(plain, CallSizes{1, 0, lengths[0] > 99 ? 1 : 2, lengths, 5}));
    expected.back()->run(pass);
  }
  const auto start = std::chrono::steady_clock::now();
  size_t tried = 0, place = all.size() - 1;
  for (; tried < all.size(); ++tried) {
    if (tried >= 5 && std::chrono::steady_clock::now() - start > std::chrono::seconds(6)) break;
    SCOPED_TRACE(all[place]);
    EmulatedProgram other(spec, with(settings, {{"schedule", all[place]}}));
    for (size_t i = 0; i < packings.size(); ++i) {
      Call call(other, CallSizes{1, 0, i == 2 ? 1 : 2, packings[i], 5});
      call.run(pass);
      for (const std::string& name : call.outputs(pass))
        EXPECT_EQ(call.tensor(name).data, expected[i]->tensor(name).data) << name;
    }
    place = (place + all.size() * 382 / 1000 + 1) % all.size();  // the golden section leaves no large gap
  }
  std::cout << tried << " of " << all.size() << " schedules\n";
}
