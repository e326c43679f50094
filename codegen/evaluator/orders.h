// SPDX-License-Identifier: Apache-2.0
// The orders of float sums: the one reference implementation. They belong to the program, not to a schedule, so every
// emitted kernel, forward and backward, follows the rules below bit for bit (text compiled without contraction).
//
// Balanced tree over `count` terms and a list of index bits: the terms are padded with +0 to the next power of two P;
// folding bit k replaces term i (bit k clear, bits folded before clear) by term i + term i|2^k. The result is term 0.
//   row tree:    bits 0, 1, top, then 2, 3, ... ascending, over the column index
//                (4: 0,1; 8: 0,1,2; 16: 0,1,3,2; 64: 0,1,5,2,3,4; 128: 0,1,6,2,3,4,5; 96 as 128 with +0)
//   number tree: bits 0, 1, 2, ... ascending: neighbours first
// Sum of products sum_c x_c*y_c over columns: folding bit 0 gives fma(x_1, y_1, round(x_0*y_0)) for the columns
// (2j, 2j+1), then the row tree goes on from bit 1. A missing column has x = y = +0. With one column: round(x_0*y_0).
//
// Scan over the valid rows of a chunk, in blocks of 8 rows (rows 8b..8b+7 of the chunk). Forward, inside a block:
//   L[first] = x[first], L[r] = L[r-1] + x[r];    first block: S[r] = L[r];    later: S[r] = carry + L[r]
//   carry = S of the block's last row
// Reverse: the same from the block that holds the chunk's last valid row, each block from its last valid row upwards
// (absent rows are skipped: they add no +0). Exclusive: S_excl[r] = S[r-1] (reverse: S[r+1]), +0 in the first row of
// the scan's direction; no subtraction. Total: S of the last row of the *forward inclusive* scan; +0 of no rows.
//
// Parameter sum over every tile of every sequence: rows of a tile by the scan's total; the tiles of a segment
// (tiles 8s..8s+7 by dense number, across sequences and batch rows) one after another in number order, starting from
// the segment's first tile; the segments ceil(capacity/8) by the number tree, a segment without tiles being +0; then
// the listed feature axes by the row tree (no fma: the terms are sums by now), the last axis first; then the heads
// ascending, starting from head 0. Sums that do not go over tiles take the same steps in the same order, those that
// apply. Maxima need no order. The sign of a zero is not part of these rules.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace kdagen::orders {

inline constexpr int64_t rows_per_scan_block = 8;
inline constexpr int64_t tiles_per_segment = 8;

/// The smallest power of two >= count; 1 for count <= 1.
int64_t padded_count(int64_t count);
/// The bits of a column index in the order in which the row tree folds them.
std::vector<int> row_tree_bits(int64_t columns);
/// 0, 1, 2, ... up to the top bit of padded_count(count) - 1.
std::vector<int> number_tree_bits(int64_t count);
/// The additions of a tree in order: term first += term second.
std::vector<std::pair<int64_t, int64_t>> tree_additions(const std::vector<int>& bits);

inline float multiply_add(float x, float y, float c) { return std::fma(x, y, c); }
/// Plain: a float64 reference need not repeat the single rounding.
inline double multiply_add(double x, double y, double c) { return x * y + c; }

/// A balanced tree for a fixed count of terms. Number: float, double, or a type with + and * and multiply_add.
template <class Number>
class Tree {
 public:
  /// The row tree over `columns` columns.
  static Tree over_columns(int64_t columns) { return Tree(columns, row_tree_bits(columns)); }
  /// Neighbours first.
  static Tree over_numbers(int64_t count) { return Tree(count, number_tree_bits(count)); }

  /// sum of x[i*stride], i < count.
  Number sum(const Number* x, int64_t stride = 1) {
    for (int64_t i = 0; i < count_; ++i) terms_[i] = x[i * stride];
    for (size_t i = count_; i < terms_.size(); ++i) terms_[i] = Number(0);
    return fold(0);
  }
  /// sum of x[i*x_stride]*y[i*y_stride] with the fma leaf.
  Number dot(const Number* x, int64_t x_stride, const Number* y, int64_t y_stride) {
    if (terms_.size() == 1) return count_ ? x[0] * y[0] : Number(0);
    for (size_t i = 0; i < terms_.size(); i += 2) terms_[i] = leaf(x, x_stride, y, y_stride, i);
    return fold(terms_.size() / 2);
  }

 private:
  Tree(int64_t count, const std::vector<int>& bits)
      : count_(count), additions_(tree_additions(bits)), terms_(padded_count(count), Number(0)) {}

  Number leaf(const Number* x, int64_t x_stride, const Number* y, int64_t y_stride, int64_t i) const {
    if (i >= count_) return Number(0);
    Number product = x[i * x_stride] * y[i * y_stride];
    if (i + 1 >= count_) return product;
    return multiply_add(x[(i + 1) * x_stride], y[(i + 1) * y_stride], product);
  }
  Number fold(size_t first_addition) {
    for (size_t k = first_addition; k < additions_.size(); ++k)
      terms_[additions_[k].first] = terms_[additions_[k].first] + terms_[additions_[k].second];
    return terms_[0];
  }

  int64_t count_;
  std::vector<std::pair<int64_t, int64_t>> additions_;
  std::vector<Number> terms_;
};

/// One column of a scan: x[r*stride], r < rows (the valid rows of a chunk), into result[r*stride]. May not be in place.
template <class Number>
void scan(const Number* x, Number* result, int64_t stride, int64_t rows, bool exclusive, bool reverse) {
  int64_t blocks = (rows + rows_per_scan_block - 1) / rows_per_scan_block;
  Number carry = Number(0);
  for (int64_t i = 0; i < blocks; ++i) {
    int64_t block = reverse ? blocks - 1 - i : i;
    int64_t low = block * rows_per_scan_block, high = low + rows_per_scan_block;
    if (high > rows) high = rows;
    Number local = Number(0), previous = carry;
    for (int64_t k = 0; k < high - low; ++k) {
      int64_t r = reverse ? high - 1 - k : low + k;
      local = k == 0 ? x[r * stride] : local + x[r * stride];
      Number inclusive = i == 0 ? local : carry + local;
      result[r * stride] = exclusive ? previous : inclusive;
      previous = inclusive;
    }
    carry = previous;
  }
}

/// The forward inclusive scan's last value.
template <class Number>
Number scan_total(const Number* x, int64_t stride, int64_t rows) {
  Number carry = Number(0);
  for (int64_t low = 0; low < rows; low += rows_per_scan_block) {
    int64_t high = low + rows_per_scan_block < rows ? low + rows_per_scan_block : rows;
    Number local = x[low * stride];
    for (int64_t r = low + 1; r < high; ++r) local = local + x[r * stride];
    carry = low == 0 ? local : carry + local;
  }
  return carry;
}

/// A sum over all tiles, for `width` independent columns: add() takes the tiles' terms in dense order.
template <class Number>
class TileSum {
 public:
  TileSum(int64_t capacity, int64_t width)
      : width_(width), segments_((capacity + tiles_per_segment - 1) / tiles_per_segment * width, Number(0)) {}

  void add(int64_t tile, const Number* terms) {
    Number* segment = segments_.data() + tile / tiles_per_segment * width_;
    bool first = tile % tiles_per_segment == 0;
    for (int64_t i = 0; i < width_; ++i) segment[i] = first ? terms[i] : segment[i] + terms[i];
  }
  /// The segments by the number tree.
  void finish(Number* result) const {
    if (segments_.empty()) return static_cast<void>(std::fill_n(result, width_, Number(0)));  // no tile at all
    auto tree = Tree<Number>::over_numbers(static_cast<int64_t>(segments_.size()) / width_);
    for (int64_t i = 0; i < width_; ++i) result[i] = tree.sum(segments_.data() + i, width_);
  }

 private:
  int64_t width_;
  std::vector<Number> segments_;
};

/// x[0] + x[stride] + ... one after another: heads.
template <class Number>
Number ascending_sum(const Number* x, int64_t stride, int64_t count) {
  Number sum = count ? x[0] : Number(0);
  for (int64_t i = 1; i < count; ++i) sum = sum + x[i * stride];
  return sum;
}

}  // namespace kdagen::orders
