// SPDX-License-Identifier: Apache-2.0
// Sums and maxima of a tile's arrays, in the orders that kernels have: [rows][heads][columns], without the axes that a
// value lacks.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "codegen/evaluator/number.h"
#include "codegen/evaluator/orders.h"
#include "codegen/evaluator/program.h"

namespace kdagen::evaluator {

template <class Number>
class Reductions {
 public:
  Reductions(int64_t columns, int64_t heads)
      : columns_(columns), heads_(heads), tree_(orders::Tree<Number>::over_columns(columns)) {}

  /// The tree over the columns of a row.
  orders::Tree<Number>& tree() { return tree_; }

  /// Along the rows, sums in the order of the scan. `from` loses its rows; the result lies in `storage`.
  const Number* over_rows(const Number* x, Axes& from, int64_t rows, bool sum, std::vector<Number>& storage) {
    from.rows = false;
    const int64_t width = count(from, 1);
    std::vector<Number> result(width);
    for (int64_t i = 0; i < width; ++i)
      result[i] = sum ? orders::scan_total(x + i, width, rows) : maximum(x + i, width, rows);
    storage = std::move(result);
    return storage.data();
  }

  /// Columns by the row tree, then heads ascending. The result is x itself or lies in `storage`.
  const Number* over_columns_and_heads(Axes over, const Number* x, Axes from, int64_t rows, bool sum,
                                       std::vector<Number>& storage) {
    if (over.columns && from.columns) {
      std::vector<Number> result(count(from, rows) / columns_);
      for (size_t i = 0; i < result.size(); ++i) {
        const Number* row = x + i * columns_;
        result[i] = sum ? tree_.sum(row) : maximum(row, 1, columns_);
      }
      from.columns = false;
      storage = std::move(result);
      x = storage.data();
    }
    if (!over.heads) return x;
    const int64_t width = from.columns ? columns_ : 1;
    std::vector<Number> result(count(from, rows) / heads_);
    for (size_t i = 0; i < result.size(); ++i) {
      const Number* first = x + static_cast<int64_t>(i) / width * heads_ * width + static_cast<int64_t>(i) % width;
      result[i] = sum ? orders::ascending_sum(first, width, heads_) : maximum(first, width, heads_);
    }
    storage = std::move(result);
    return storage.data();
  }

  /// rsqrt(factor * sum of squares + eps). As the kernel: where the sum is beyond a float, of the row times 2^-72.
  Number inverse_norm(const Number* row, Number factor, Number eps) {
    const Number squares = tree_.dot(row, 1, row, 1), inverse = functions::rsqrt(squares * factor + eps);
    if (std::isfinite(functions::plain(squares))) return inverse;
    std::vector<Number> small(columns_);
    for (int64_t d = 0; d < columns_; ++d) small[d] = functions::scale_exactly(row[d], 0x1p-72);
    return functions::scale_exactly(functions::rsqrt(tree_.dot(small.data(), 1, small.data(), 1) * factor), 0x1p-72);
  }

 private:
  int64_t count(Axes axes, int64_t rows) const {
    return (axes.rows ? rows : 1) * (axes.heads ? heads_ : 1) * (axes.columns ? columns_ : 1);
  }
  static Number maximum(const Number* x, int64_t stride, int64_t count) {
    Number result = x[0];
    for (int64_t i = 1; i < count; ++i) result = functions::max(result, x[i * stride]);
    return result;
  }

  int64_t columns_, heads_;
  orders::Tree<Number> tree_;
};

}  // namespace kdagen::evaluator
