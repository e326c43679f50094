// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/sample_call.h"

using namespace kdagen::runtime;
using kdagen::testing::SampleCall;

namespace {

std::vector<std::string> entries(const SampleCall& call) {
  std::vector<std::string> names;
  const Binding binding = call.bind();
  for (const LaunchStep& step : launch_steps(call.manifest, call.problem, binding)) names.push_back(step.entry);
  return names;
}

}  // namespace

TEST(Binding, WordsFollowTheManifest) {
  SampleCall call;  // B=2, T=33, H=3, D=128, 6 tiles
  const Binding binding = call.bind();
  const WorkspaceLayout layout = workspace_layout(call.manifest, call.problem);
  char* const workspace = reinterpret_cast<char*>(std::uintptr_t{1} << 40);
  const auto words = build_words(call.manifest, call.problem, binding, layout, workspace);
  const auto address = [&](const char* name) { return reinterpret_cast<std::uint64_t>(call[name].data); };
  const std::uint64_t base = reinterpret_cast<std::uint64_t>(workspace);
  const std::vector<std::uint64_t> expected{
      address("x"),       33 * 3 * 128, 3 * 128,    128,  // rows: batch, token, head
      address("beta"),    33 * 3,       3,          1,        address("weight"),
      address("dy"),      6 * 16 * 128, 16 * 128,   128,       // tile: head, tile, row
      address("dtotal"),  128,          3 * 128,    0,         // per chunk: no row stride
      address("dx"),      3 * 33 * 128, 128,        33 * 128,  // htd
      address("dweight"), base,         base + 256, 0,        33};
  EXPECT_EQ(words, expected);
  EXPECT_EQ(static_cast<int>(words.size()), argument_words(call.manifest));
}

// T022
TEST(Binding, AbsentOptionalTensorIsANullPointer) {
  SampleCall call;
  call.remove("beta");
  const Binding binding = call.bind();
  const auto words =
      build_words(call.manifest, call.problem, binding, workspace_layout(call.manifest, call.problem), nullptr);
  EXPECT_EQ(words[4], 0u);
  EXPECT_EQ(words[5] | words[6] | words[7], 0u);
}

TEST(Binding, StridesOfSingleElementsDoNotCount) {
  SampleCall call;
  call.problem.batch = call.problem.sequences = 1;
  for (TensorRef& tensor : call.tensors) {
    tensor.shape = tensor_shape(call.manifest, *call.manifest.find_tensor(tensor.name), call.problem);
    tensor.strides = contiguous_strides(tensor.shape);
  }
  call["x"].strides[0] = 7;  // frameworks put anything there
  EXPECT_EQ(entries(call)[0], "norm_bwd");
  EXPECT_EQ(call.bind().tensors[0].batch, 0);
}

TEST(Binding, EntryByAlignmentOfPointersAndStrides) {
  EXPECT_EQ(entries(SampleCall()), (std::vector<std::string>{"norm_bwd", "norm_bwd_finish"}));
  SampleCall moved, odd_token, odd_head;
  moved["x"].data = static_cast<char*>(moved["x"].data) + 2;  // one bf16; 8 bytes are wanted
  odd_token["x"].strides[1] = 3 * 128 + 2;
  odd_token["x"].strides[0] = 40 * odd_token["x"].strides[1];
  odd_head["dy"].strides[0] += 2;  // 8 bytes; 16 are wanted
  for (const SampleCall* call : {&moved, &odd_token, &odd_head}) EXPECT_EQ(entries(*call)[0], "norm_bwd_any");
  SampleCall wide;
  wide["x"].strides[1] = 3 * 128 + 4;  // a multiple of 8 bytes
  wide["x"].strides[0] = 40 * wide["x"].strides[1];
  EXPECT_EQ(entries(wide)[0], "norm_bwd");
}

TEST(Binding, LaunchesAndGridsOfFixedAndPackedCalls) {
  SampleCall call;
  const Binding binding = call.bind();
  const auto steps = launch_steps(call.manifest, call.problem, binding);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].grid[0], 2u * 3);  // ceil(6 tiles / 4 a block) * heads
  EXPECT_EQ(steps[1].grid[0], 3u);
  std::vector<std::int32_t> offsets(5);
  Problem packed{1, 66, 3, 4, offsets.data(), OffsetType::i32};
  const auto packed_steps = launch_steps(call.manifest, packed, binding);
  ASSERT_EQ(packed_steps.size(), 3u);
  EXPECT_EQ(packed_steps[0].entry, "first_tile_i32");
  EXPECT_EQ(packed_steps[1].grid[0], 3u * 3);  // ceil((5 + 4) / 4) * heads
  packed.offsets = OffsetType::i64;
  EXPECT_EQ(launch_steps(call.manifest, packed, binding)[0].entry, "first_tile_i64");
}

TEST(Binding, OutputsMayInterleaveInOneBuffer) {
  SampleCall call;
  // dx [B,H,T,D] as one half of rows of 256 features, dy the other half, and a second output after it.
  TensorInfo second = *call.manifest.find_tensor("dx");
  second.name = "dz";
  call.manifest.tensors.push_back(second);
  call["dx"].strides = {3 * 33 * 256, 33 * 256, 256, 1};
  TensorRef dz = call["dx"];
  dz.name = "dz";
  dz.data = static_cast<char*>(dz.data) + 128 * 2;
  call["dx"].data = reinterpret_cast<void*>(std::uintptr_t{1} << 30);
  dz.data = reinterpret_cast<void*>((std::uintptr_t{1} << 30) + 256);
  call.tensors.push_back(dz);
  EXPECT_NO_THROW(call.bind());
  call.tensors.back().data = reinterpret_cast<void*>((std::uintptr_t{1} << 30) + 254);  // the last feature is shared
  EXPECT_THROW(call.bind(), kdagen::UsageError);
}
