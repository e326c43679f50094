// SPDX-License-Identifier: Apache-2.0
// What the backward sees of changes since the forward: T053 of docs/traps.md. A value that `save` names is handed over
// as it was; everything else is read when the backward runs. Nothing is kept by address.
#include <gtest/gtest.h>

#include "tests/common/emulated_program.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

using Tensors = std::map<std::string, runtime::HostTensor>;

/// Runs the pass on the tensors in the memory where they are.
void run(EmulatedProgram& program, Pass pass, const runtime::Problem& problem, Tensors& tensors) {
  std::vector<runtime::TensorRef> refs;
  for (const runtime::TensorInfo& info : program.kernel(pass).manifest().tensors) {
    runtime::HostTensor& tensor = tensors.at(info.name);
    refs.push_back(
        {info.name, tensor.data.data(), tensor.dtype, tensor.shape, runtime::contiguous_strides(tensor.shape), -1});
  }
  program.kernel(pass).launch(refs, problem);
}

void overwrite(Tensors& tensors) {
  for (const char* name : {"x", "a"}) {
    runtime::HostTensor& tensor = tensors.at(name);
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, 0.5 - tensor.get(i));
  }
}

void overwrite(const runtime::Problem& problem) {
  const int32_t offsets[] = {0, 16, 21};
  std::copy_n(offsets, 3, static_cast<int32_t*>(const_cast<void*>(problem.cu_seqlens)));
}

}  // namespace

TEST(SavedValues, T053InputsOverwrittenBetweenThePasses) {
  EmulatedProgram program(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), w = s.input("w", {t, h, d}), a = s.param("a", {h});
        s.output("y", w * sigmoid(s.let("g", x * a)));
      },
      with(float_tensors, {{"dim", "16"}, {"save", "g"}}));
  Call call(program, {1, 0, 2, {5, 16}});
  call.prepare(Pass::bwd), call.prepare(Pass::fwd);
  Tensors kept = call.tensors();
  run(program, Pass::fwd, call.problem(), kept);
  Tensors changed = kept, fresh = kept;

  run(program, Pass::bwd, call.problem(), kept);
  run(program, Pass::bwd, call.problem(), changed);
  overwrite(changed);
  run(program, Pass::bwd, call.problem(), changed);
  EXPECT_EQ(changed.at("dw").data, kept.at("dw").data);  // dy * sigmoid(g), of the g that was saved
  EXPECT_NE(changed.at("dx").data, kept.at("dx").data);  // a times it
  EXPECT_NE(changed.at("da").data, kept.at("da").data);  // x times it

  // As a call that never saw the old inputs; then other offsets in the same memory.
  EmulatedProgram another(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), w = s.input("w", {t, h, d}), a = s.param("a", {h});
        s.output("y", w * sigmoid(s.let("g", x * a)));
      },
      with(float_tensors, {{"dim", "16"}, {"save", "g"}}));
  overwrite(fresh);
  run(another, Pass::bwd, call.problem(), fresh);
  for (const char* name : {"dx", "dw", "da"}) EXPECT_EQ(changed.at(name).data, fresh.at(name).data) << name;
  overwrite(call.problem());
  run(program, Pass::bwd, call.problem(), changed);
  const Call rearranged(program, {1, 0, 2, {16, 5}});
  run(another, Pass::bwd, rearranged.problem(), fresh);
  for (const char* name : {"dx", "dw", "da"}) EXPECT_EQ(changed.at(name).data, fresh.at(name).data) << name;
}
