// SPDX-License-Identifier: Apache-2.0
#include "runtime/problem.h"

#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/manifests.h"

using namespace kdagen::runtime;
using kdagen::testing::sample_manifest;

namespace {

Problem fixed(std::int64_t batch, std::int64_t tokens, std::int64_t heads) { return {batch, tokens, heads, batch}; }

Problem packed(std::int64_t tokens, std::int64_t heads, std::int64_t sequences) {
  static const std::int32_t offsets[64] = {};
  return {1, tokens, heads, sequences, offsets, OffsetType::i32};
}

}  // namespace

TEST(Problem, SymbolsOfAFixedLengthCall) {
  const Manifest m = sample_manifest();  // chunk 16, dim 128, 8 tiles a segment
  const Problem p = fixed(3, 65, 6);
  const auto value = [&](const char* symbol) { return evaluate_symbol(symbol, m, p, 4); };
  EXPECT_EQ(value("tokens"), 65);
  EXPECT_EQ(value("batch"), 3);
  EXPECT_EQ(value("heads"), 6);
  EXPECT_EQ(value("sequences"), 3);
  EXPECT_EQ(value("sequences_plus_1"), 4);
  EXPECT_EQ(value("offset_bytes"), 0);
  EXPECT_EQ(value("tiles"), 15);       // 3 rows of 5
  EXPECT_EQ(value("segments"), 2);     // ceil(15 / 8)
  EXPECT_EQ(value("tile_blocks"), 4);  // ceil(15 / 4)
  EXPECT_EQ(value("dim"), 128);
  EXPECT_EQ(value("chunk"), 16);
  EXPECT_EQ(value("12"), 12);
  EXPECT_EQ(evaluate_product({"heads", "segments", "dim"}, m, p), 6 * 2 * 128);
}

TEST(Problem, TilesOfAPackedCallCoverEverySequenceAndTheDeadRows) {
  const Manifest m = sample_manifest();
  EXPECT_EQ(tile_count(m, packed(100, 1, 3)), 7 + 3);
  EXPECT_EQ(tile_count(m, packed(0, 1, 3)), 3);
  EXPECT_EQ(evaluate_symbol("sequences", m, packed(100, 1, 3)), 3);
  Problem p = packed(100, 1, 3);
  p.offsets = OffsetType::i32;
  EXPECT_EQ(evaluate_symbol("offset_bytes", m, p), 4);
  p.offsets = OffsetType::i64;
  EXPECT_EQ(evaluate_symbol("offset_bytes", m, p), 8);
  // The capacity suffices: any offsets need sum(ceil(length / 16)) + ceil(dead / 16) <= ceil(T / 16) + N tiles.
  for (std::int64_t first = 0; first <= 50; ++first)
    for (std::int64_t second = first; second <= 50; ++second) {
      const auto tiles = [](std::int64_t rows) { return (rows + 15) / 16; };
      EXPECT_LE(tiles(first) + tiles(second - first) + tiles(50 - second), tile_count(m, packed(50, 1, 2)));
    }
}

TEST(Problem, ShapesByLayout) {
  const Manifest m = sample_manifest();
  const Problem p = fixed(2, 33, 3);
  const auto shape = [&](const char* name) { return tensor_shape(m, *m.find_tensor(name), p); };
  EXPECT_EQ(shape("x"), (Dims{2, 33, 3, 128}));
  EXPECT_EQ(shape("beta"), (Dims{2, 33, 3}));
  EXPECT_EQ(shape("weight"), (Dims{3, 128}));
  EXPECT_EQ(shape("dy"), (Dims{3, 6, 16, 128}));
  EXPECT_EQ(shape("dtotal"), (Dims{6, 3, 128}));
  EXPECT_EQ(shape("dx"), (Dims{2, 3, 33, 128}));
  EXPECT_EQ(shape_letters(m, *m.find_tensor("dy")), "[H,tiles,C,D]");
  EXPECT_EQ(shape_letters(m, *m.find_tensor("dx")), "[B,H,T,D]");
  TensorInfo scalar = *m.find_tensor("weight");
  scalar.axes.clear();
  EXPECT_EQ(tensor_shape(m, scalar, p), Dims{});
  TensorInfo per_chunk = *m.find_tensor("dtotal");
  per_chunk.layout = Layout::htd;
  EXPECT_EQ(tensor_shape(m, per_chunk, p), (Dims{3, 6, 128}));
}

TEST(Problem, WorkspaceSlotsAreAlignedAndInOrder) {
  const WorkspaceLayout layout = workspace_layout(sample_manifest(), fixed(3, 65, 6));
  ASSERT_EQ(layout.slots.size(), 2u);
  EXPECT_EQ(layout.slots[0].offset, 0);
  EXPECT_EQ(layout.slots[0].bytes, 4 * 8);
  EXPECT_EQ(layout.slots[1].offset, 256);
  EXPECT_EQ(layout.slots[1].bytes, 6 * 2 * 128 * 4);
  EXPECT_EQ(layout.bytes, 256 + 6 * 2 * 128 * 4);
}

TEST(Problem, SizesBeyond32BitsAreExact) {
  const Manifest m = sample_manifest();
  const Problem p = fixed(1, 1LL << 33, 128);
  EXPECT_EQ(tile_count(m, p), 1LL << 29);
  EXPECT_EQ(element_count(tensor_shape(m, *m.find_tensor("x"), p)), 1LL << 47);
  EXPECT_NO_THROW(check_problem(m, p));
}

TEST(Problem, ReadOffTheTensors) {
  const Manifest m = sample_manifest();
  std::int64_t offsets[] = {0, 5, 7};
  const std::vector<TensorRef> tensors{{"weight", nullptr, DType::f32, {3, 128}, {128, 1}},
                                       {"dx", nullptr, DType::bf16, {1, 3, 7, 128}, {2688, 896, 128, 1}}};
  const TensorRef cu{"cu_seqlens", offsets, DType::i64, {3}, {1}};
  const Problem p = problem_of(m, tensors, &cu);
  EXPECT_EQ(p.batch, 1);
  EXPECT_EQ(p.tokens, 7);
  EXPECT_EQ(p.heads, 3);
  EXPECT_EQ(p.sequences, 2);
  EXPECT_EQ(p.offsets, OffsetType::i64);
  EXPECT_FALSE(problem_of(m, tensors, nullptr).packed());
  EXPECT_THROW(problem_of(m, {}, nullptr), kdagen::UsageError);
  const TensorRef wrong{"cu_seqlens", offsets, DType::f32, {3}, {1}};
  EXPECT_THROW(problem_of(m, tensors, &wrong), kdagen::UsageError);
}

TEST(Problem, TheMajorityOfTheTensorsIsRight) {
  const Manifest m = sample_manifest();
  const auto sized = [](const char* name, const Dims& shape) {
    return TensorRef{name, nullptr, DType::bf16, shape, contiguous_strides(shape)};
  };
  const auto sizes = [&](const std::vector<TensorRef>& tensors) {
    const Problem p = problem_of(m, tensors, nullptr);
    return Dims{p.batch, p.tokens, p.heads};
  };
  // x [B,T,H,D] and dx [B,H,T,D] disagree: the manifest's first is right, in whatever order they are handed over
  EXPECT_EQ(sizes({sized("x", {2, 7, 3, 128}), sized("dx", {1, 4, 5, 128})}), (Dims{2, 7, 3}));
  EXPECT_EQ(sizes({sized("dx", {1, 4, 5, 128}), sized("x", {2, 7, 3, 128})}), (Dims{2, 7, 3}));
  // each size for itself: weight [H,D] sides with dx on the heads
  EXPECT_EQ(sizes({sized("x", {2, 7, 3, 128}), sized("dx", {1, 4, 5, 128}), sized("weight", {4, 128})}),
            (Dims{2, 7, 4}));
}

TEST(Problem, Empty) {
  EXPECT_TRUE(is_empty(fixed(0, 5, 2)));
  EXPECT_TRUE(is_empty(fixed(2, 0, 2)));
  EXPECT_TRUE(is_empty(fixed(2, 5, 0)));
  EXPECT_TRUE(is_empty(packed(5, 2, 0)));
  EXPECT_FALSE(is_empty(packed(5, 2, 1)));
}
