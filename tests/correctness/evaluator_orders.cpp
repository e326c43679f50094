// SPDX-License-Identifier: Apache-2.0
// The orders of float sums against straight-line references written from the rules, bit for bit.
#include "codegen/evaluator/orders.h"

#include <functional>

#include <gtest/gtest.h>

#include "tests/common/kernels.h"

namespace kdagen::orders {
namespace {
using kdagen::testing::Draws;
using kdagen::testing::Kernel;

std::vector<float> draw(int64_t count, uint64_t seed) {
  Draws draws(seed);
  std::vector<float> x(count);
  for (float& value : x) value = float(draws.uniform(-1, 1) * std::exp2(draws.uniform(-6, 6)));
  return x;
}

/// The tree as a recursion from the root: the last bit folded splits the terms in two halves.
float recursive_tree(const std::function<float(int64_t)>& term, std::vector<int> bits, int64_t index = 0) {
  if (bits.empty()) return term(index);
  int64_t bit = int64_t{1} << bits.back();
  bits.pop_back();
  return recursive_tree(term, bits, index) + recursive_tree(term, bits, index | bit);
}

TEST(Orders, RowTreeBits) {
  EXPECT_EQ(row_tree_bits(1), std::vector<int>({}));
  EXPECT_EQ(row_tree_bits(2), std::vector<int>({0}));
  EXPECT_EQ(row_tree_bits(8), std::vector<int>({0, 1, 2}));
  EXPECT_EQ(row_tree_bits(16), std::vector<int>({0, 1, 3, 2}));
  EXPECT_EQ(row_tree_bits(64), std::vector<int>({0, 1, 5, 2, 3, 4}));
  EXPECT_EQ(row_tree_bits(96), std::vector<int>({0, 1, 6, 2, 3, 4, 5}));
  EXPECT_EQ(row_tree_bits(128), std::vector<int>({0, 1, 6, 2, 3, 4, 5}));
  EXPECT_EQ(row_tree_bits(256), std::vector<int>({0, 1, 7, 2, 3, 4, 5, 6}));
}

TEST(Orders, RowTree) {
  for (int64_t columns : {1, 2, 3, 16, 20, 64, 96, 128, 256}) {
    std::vector<float> x = draw(columns, columns), y = draw(columns, columns + 1000);
    auto x_at = [&](int64_t i) { return i < columns ? x[i] : 0.0f; };
    auto y_at = [&](int64_t i) { return i < columns ? y[i] : 0.0f; };
    auto tree = Tree<float>::over_columns(columns);
    EXPECT_EQ(tree.sum(x.data()), recursive_tree(x_at, row_tree_bits(columns)));
    std::vector<int> bits = row_tree_bits(columns);
    float dot = x[0] * y[0];
    if (columns > 1) {
      bits.erase(bits.begin());
      dot = recursive_tree([&](int64_t i) { return std::fma(x_at(i + 1), y_at(i + 1), x_at(i) * y_at(i)); }, bits);
    }
    EXPECT_EQ(tree.dot(x.data(), 1, y.data(), 1), dot);
  }
}

/// Sixteen lanes of eight columns as a kernel holds them: 4l..4l+3 and 64+4l..64+4l+3, then a butterfly over lanes.
TEST(Orders, RowTreeIsTheBaselineMapsOwnOrder) {
  std::vector<float> x = draw(128, 77);
  float lane[16];
  for (int l = 0; l < 16; ++l) {
    const float *low = &x[4 * l], *high = &x[64 + 4 * l];
    lane[l] = ((low[0] + low[1]) + (low[2] + low[3])) + ((high[0] + high[1]) + (high[2] + high[3]));
  }
  for (int mask : {1, 2, 4, 8}) {
    float other[16];
    for (int l = 0; l < 16; ++l) other[l] = lane[l ^ mask];
    for (int l = 0; l < 16; ++l) lane[l] += other[l];
  }
  EXPECT_EQ(Tree<float>::over_columns(128).sum(x.data()), lane[0]);
}

TEST(Orders, Scans) {
  for (int64_t rows : {1, 3, 7, 8, 9, 15, 16, 17, 29, 64}) {
    std::vector<float> x = draw(rows, rows), result(rows), exclusive(rows);
    // forward, straight from the rule
    std::vector<float> expected(rows);
    float carry = 0;
    for (int64_t b = 0; 8 * b < rows; ++b) {
      int64_t end = std::min<int64_t>(8 * b + 8, rows);
      float local = x[8 * b];
      for (int64_t r = 8 * b; r < end; ++r) {
        if (r > 8 * b) local += x[r];
        expected[r] = b == 0 ? local : carry + local;
      }
      carry = b == 0 ? local : carry + local;
    }
    scan(x.data(), result.data(), 1, rows, false, false);
    EXPECT_EQ(result, expected) << rows;
    EXPECT_EQ(scan_total(x.data(), 1, rows), expected.back());
    scan(x.data(), exclusive.data(), 1, rows, true, false);
    EXPECT_EQ(exclusive[0], 0);
    for (int64_t r = 1; r < rows; ++r) EXPECT_EQ(exclusive[r], expected[r - 1]);
    // reverse: from the block of the last valid row, which may be short
    for (int64_t b = (rows - 1) / 8; b >= 0; --b) {
      int64_t top = std::min<int64_t>(8 * b + 7, rows - 1);
      bool first = b == (rows - 1) / 8;
      float local = x[top];
      for (int64_t r = top; r >= 8 * b; --r) {
        if (r < top) local += x[r];
        expected[r] = first ? local : carry + local;
      }
      carry = expected[8 * b];
    }
    scan(x.data(), result.data(), 1, rows, false, true);
    EXPECT_EQ(result, expected) << rows;
    scan(x.data(), exclusive.data(), 1, rows, true, true);
    EXPECT_EQ(exclusive[rows - 1], 0);
    for (int64_t r = 0; r + 1 < rows; ++r) EXPECT_EQ(exclusive[r], expected[r + 1]);
  }
}

/// A parameter sum through the evaluator in float32 against one written out.
TEST(Orders, ParameterSum) {
  constexpr int64_t chunk = 12, dim = 20, heads = 3;
  Kernel kernel(R"(
    %x = kda.input "x" role "input" storage f32 : !T
    %all = kda.sum %x over ["b", "n", "t", "h", "d"] : (!T) -> !K
    %dp = kda.sum %x over ["b", "n", "t"] : (!T) -> !P
    kda.output %all as "all" role "param_gradient" storage f32 axes [] : !K
    kda.output %dp as "dp" role "param_gradient" storage f32 axes ["h", "d"] : !P
  )",
                chunk, dim);
  auto instance = evaluator::Instance::packed_row({130, 0, 7, 200, 50}, heads, 30);
  evaluator::Arrays inputs{{"x", {}}};
  for (float value : draw(instance.rows() * heads * dim, 4)) inputs["x"].values.push_back(value);
  evaluator::EvaluateOptions options;
  options.arithmetic = evaluator::Arithmetic::f32;
  auto result = evaluator::evaluate(kernel, inputs, instance, options);

  auto tiles = instance.tiles(chunk);
  ASSERT_GT(tiles.size(), 32u);
  float all = 0;
  for (int64_t h = 0; h < heads; ++h) {
    float columns[dim];
    for (int64_t d = 0; d < dim; ++d) {
      std::vector<float> segments;
      for (size_t tile = 0; tile < tiles.size(); ++tile) {
        float total = 0, carry = 0;
        for (int64_t r = 0; r < tiles[tile].rows; ++r) {
          float x = float(inputs["x"].values[((tiles[tile].first_row + r) * heads + h) * dim + d]);
          total = r % 8 == 0 ? x : total + x;
          if (r % 8 == 7 || r + 1 == tiles[tile].rows) carry = r < 8 ? total : carry + total;
        }
        if (tile % 8 == 0)
          segments.push_back(carry);
        else
          segments.back() += carry;
      }
      for (size_t step = 1; step < segments.size(); step *= 2)  // neighbours first; what has no neighbour gets +0
        for (size_t i = 0; i + step < segments.size(); i += 2 * step) segments[i] += segments[i + step];
      columns[d] = segments[0];
      EXPECT_EQ(result.tensors["dp"].values[h * dim + d], columns[d]);
    }
    float head = recursive_tree([&](int64_t i) { return i < dim ? columns[i] : 0.0f; }, row_tree_bits(dim));
    all = h == 0 ? head : all + head;
  }
  EXPECT_EQ(result.tensors["all"].values[0], all);
}

/// A sum over columns whose operand is a product starts with the fma leaf, whatever axes the factors have.
TEST(Orders, SumOfProductsInTheEvaluator) {
  Kernel kernel(R"(
    %x = kda.input "x" role "input" storage f32 : !T
    %w = kda.input "w" role "param" storage f32 : !D
    %p = kda.mul %x, %w : (!T, !D) -> !T
    %s = kda.sum %p over ["d"] : (!T) -> !R
    kda.output %s as "s" role "output" storage f32 axes ["b", "n", "t", "h"] : !R
  )",
                8, 96);
  auto instance = evaluator::Instance::fixed(1, 5, 2);
  evaluator::Arrays inputs{{"x", {}}, {"w", {}}};
  std::vector<float> x = draw(5 * 2 * 96, 1), w = draw(96, 2);
  inputs["x"].values.assign(x.begin(), x.end());
  inputs["w"].values.assign(w.begin(), w.end());
  evaluator::EvaluateOptions options;
  options.arithmetic = evaluator::Arithmetic::f32;
  auto result = evaluator::evaluate(kernel, inputs, instance, options);
  auto tree = Tree<float>::over_columns(96);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(float(result.tensors["s"].values[i]), tree.dot(&x[i * 96], 1, w.data(), 1));
}

}  // namespace
}  // namespace kdagen::orders
