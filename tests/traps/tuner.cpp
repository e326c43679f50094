// SPDX-License-Identifier: Apache-2.0
// T089 of docs/traps.md: schedules from all over the tuner's space, under the emulator's checks. The other traps of
// tuning are tests/correctness/tune_*.cpp and runtime_tuning_store.cpp.
#include <gtest/gtest.h>

#include "codegen/pipeline.h"
#include "tests/common/emulated_program.h"
#include "tools/tune/space.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

std::vector<std::string> schedules(const EmulatedProgram& program, Direction direction) {
  Compilation compilation(program.graph(), direction, {});
  std::vector<std::string> names;
  for (const tune::Candidate& candidate : tune::candidates(compilation, "sm_90", {232448, 2048}))
    names.push_back(candidate.schedule);
  return names;
}

}  // namespace

TEST(Tuner, T089CandidatesGiveTheDefaultsBits) {
  for (const auto& [spec, dim, pass] :
       {std::tuple("rmsnorm", "96", Pass::bwd), {"rmsnorm", "128", Pass::fwd}, {"gla", "64", Pass::fwd}}) {
    const Settings settings{{"dim", dim}};
    EmulatedProgram plain(spec, settings);
    const std::vector<std::string> all = schedules(plain, pass == Pass::bwd ? Direction::bwd : Direction::fwd);
    ASSERT_GE(all.size(), 20u) << spec;
    for (const size_t i : {all.size() - 1, all.size() / 2, all.size() / 3}) {
      SCOPED_TRACE(all[i]);
      EmulatedProgram other(spec, with(settings, {{"schedule", all[i]}}));
      for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{1}, {17, 0, 65}, {256, 3}}) {
        Call expected(plain, {1, 0, 2, lengths, 5}), call(other, {1, 0, 2, lengths, 5});
        expected.run(pass), call.run(pass);
        for (const std::string& name : expected.outputs(pass))
          EXPECT_EQ(call.tensor(name).data, expected.tensor(name).data) << spec << " " << name;
      }
    }
  }
}
