// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <kdagen/error.h>

#include "specs/workloads/tensor.h"

namespace kdagen {
namespace {

TEST(Rounding, TiesGoToEven) {
  EXPECT_EQ(round_to(1 + 0x1p-8, "bf16"), 1.0);
  EXPECT_EQ(round_to(1 + 3 * 0x1p-8, "bf16"), 1 + 0x1p-6);
  EXPECT_EQ(round_to(1 + 0x1.01p-8, "bf16"), 1 + 0x1p-7);
  EXPECT_EQ(round_to(-(1 + 0x1p-11), "fp16"), -1.0);
  EXPECT_EQ(round_to(1 + 3 * 0x1p-11, "fp16"), 1 + 0x1p-9);
}

TEST(Rounding, RoundsOnceNotThroughFloat) {
  // Through f32 this would become the tie 1 + 2^-8 and then 1.
  EXPECT_EQ(round_to(1 + 0x1p-8 + 0x1p-40, "bf16"), 1 + 0x1p-7);
}

TEST(Rounding, OverflowAndSubnormals) {
  EXPECT_EQ(round_to(65519.9, "fp16"), 65504.0);
  EXPECT_EQ(round_to(65520.0, "fp16"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(round_to(0x1p-25, "fp16"), 0.0);
  EXPECT_EQ(round_to(0x1.8p-25, "fp16"), 0x1p-24);
  EXPECT_EQ(round_to(0x1.1p-133, "bf16"), 0x1p-133);
  EXPECT_TRUE(std::isnan(round_to(std::nan(""), "bf16")));
  EXPECT_THROW(round_to(1, "fp8"), UsageError);
}

TEST(Rounding, F32IsTheCast) {
  Random random(7, "cast");
  for (int i = 0; i < 20000; ++i) {
    double x = random.normal() * std::exp2(random.uniform(-150, 127));
    EXPECT_EQ(round_to(x, "f32"), static_cast<double>(static_cast<float>(x)));
  }
}

TEST(Shape, PackedTilesAreDenseAndEmptySequencesTakeNone) {
  Shape shape;
  shape.packed = true;
  shape.seqlens = {5, 0, 4, 9};
  shape.dead_rows = 3;
  shape.chunk = 4;
  EXPECT_EQ(shape.tokens(), 21);
  EXPECT_EQ(shape.capacity(), 6 + 4);
  EXPECT_EQ(shape.cumulative_lengths(), (std::vector<int64_t>{0, 5, 5, 9, 18}));
  std::vector<Tile> tiles = shape.tiles();
  ASSERT_EQ(tiles.size(), 6u);
  const int64_t expected[6][4] = {{0, 0, 0, 4}, {0, 1, 4, 1}, {2, 0, 5, 4}, {3, 0, 9, 4}, {3, 1, 13, 4}, {3, 2, 17, 1}};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(tiles[i].sequence, expected[i][0]);
    EXPECT_EQ(tiles[i].local, expected[i][1]);
    EXPECT_EQ(tiles[i].first_row, expected[i][2]);
    EXPECT_EQ(tiles[i].rows, expected[i][3]);
  }
}

TEST(Shape, FixedLengthBatches) {
  Shape shape;
  shape.batch = 2;
  shape.seqlens = {18};
  EXPECT_EQ(shape.rows(), 36);
  EXPECT_EQ(shape.capacity(), 4);
  std::vector<Tile> tiles = shape.tiles();
  ASSERT_EQ(tiles.size(), 4u);
  EXPECT_EQ(tiles[3].first_row, 34);
  EXPECT_EQ(tiles[3].rows, 2);
}

TEST(Shape, RefusesPackedBatches) {
  Shape shape;
  shape.packed = true;
  shape.batch = 2;
  EXPECT_THROW(shape.validate(), UsageError);
}

TEST(Declaration, CanonicalOrderIsRowsHeadFeature) {
  Shape shape;
  shape.seqlens = {20};
  shape.heads = 3;
  shape.dim = 8;
  Declaration x{"x", "bf16", {AxisRole::head, AxisRole::feature, AxisRole::rows}};
  EXPECT_EQ(dense_shape(x, shape), (std::vector<int64_t>{1, 20, 3, 8}));
  Declaration total{"total", "f32", {AxisRole::chunk, AxisRole::head, AxisRole::feature}};
  EXPECT_EQ(dense_shape(total, shape), (std::vector<int64_t>{2, 3, 8}));
}

}  // namespace
}  // namespace kdagen
