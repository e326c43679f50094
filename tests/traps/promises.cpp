// SPDX-License-Identifier: Apache-2.0
// T004 of docs/traps.md: inputs outside the bounds that a spec promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/emulated_program.h"
#include "tools/execute/run.h"

using namespace kdagen;
using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Promises, T004ValuesOutsideTheBoundsAreRefused) {
  const EmulatedProgram program(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        s.output("y", exp2(cumsum(s.input("a", {t, h, d}).bounds(-5, 0) + s.param("w", {d}).bounds(-1, 1), t)));
      },
      {{"dim", "16"}, {"dtype", "f32"}});
  runtime::TensorFile file;
  file.tensors["a"] = runtime::HostTensor(runtime::DType::f32, {1, 21, 1, 16});
  file.tensors["w"] = runtime::HostTensor(runtime::DType::f32, {16});
  file.tensors["cu_seqlens"] = runtime::HostTensor(runtime::DType::i32, {2});
  file.tensors["cu_seqlens"].set(1, 20);
  const auto refusal = [&](Place place) -> std::string {
    RunRequest request;
    request.graph = program.graph(), request.direction = Direction::fwd, request.place = place;
    try {
      run_pass(request, file);
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  runtime::HostTensor &a = file.tensors["a"], &w = file.tensors["w"];
  a.set(20 * 16, 7);  // a row of no sequence
  a.set(3, -5), a.set(4, nan_value);
  EXPECT_EQ(refusal(Place::cpu), "");
  a.set(19 * 16 + 1, 0.5);
  for (const Place place : {Place::cpu, Place::emulator})
    EXPECT_THAT(refusal(place), AllOf(HasSubstr("\"a\""), HasSubstr("0.5 at element 305"), HasSubstr("-5 to 0")));
  a.set(19 * 16 + 1, 0), w.set(15, -1.5);
  EXPECT_THAT(refusal(Place::cpu), AllOf(HasSubstr("\"w\""), HasSubstr("-1.5 at element 15")));
}
