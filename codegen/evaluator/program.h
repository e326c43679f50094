// SPDX-License-Identifier: Apache-2.0
// A kda.kernel as a list of steps over dense arrays: what the executor runs. All questions about axes are answered
// here.
//
// Three phases: prologue (parameters and constants only), tile (once a tile, for all heads), epilogue (after the sums
// over all tiles). A value's array in a tile is [rows][heads][columns] without the axes it lacks; rows are the tile's
// valid rows, so nothing ever sees a padded one.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "codegen/evaluator/storage.h"
#include "codegen/ir/Dialect.h"

namespace kdagen::evaluator {

/// Which axes a value's array has.
struct Axes {
  bool rows = false, heads = false, columns = false;
  bool operator==(const Axes&) const = default;
  /// Of a sum over tiles, once the rows are summed.
  Axes without_rows() const {
    Axes result = *this;
    result.rows = false;
    return result;
  }
};

enum class Kind {
  input,
  constant,
  row_index,
  column_index,
  neg,
  exp,
  exp2,
  log,
  log1p,
  sqrt,
  rsqrt,
  rcp,
  sigmoid,
  sigmoid_grad,
  softplus,
  tanh,
  relu,
  abs,
  isnan,
  rint,
  detach,
  add,
  sub,
  mul,
  scale_exactly,
  div,
  pow,
  min,
  max,
  less,
  less_equal,
  equal,
  fma,
  select,
  clamp,
  round,
  sum,
  max_reduce,
  inverse_norm,
  tile_sum,
  scan,
  last,
  at_last,
  shift,
  boundary,
  broadcast,
  // of fixed-point values; last, boundary, broadcast and select move either kind
  to_fixed,
  to_fixed_small_side,
  from_fixed,
  fixed_constant,
  fixed_neg,
  fixed_rint,
  fixed_add,
  fixed_sub,
  fixed_exp2,
  fixed_scan,
  fixed_sum,
};

/// Kinds whose values finite differences hold at the base point, and those of which they hold the branch taken.
inline bool has_held_value(Kind kind) {
  return kind == Kind::detach || kind == Kind::less || kind == Kind::less_equal || kind == Kind::equal ||
         kind == Kind::isnan;
}
inline bool has_held_branch(Kind kind) {
  return kind == Kind::relu || kind == Kind::abs || kind == Kind::min || kind == Kind::max || kind == Kind::clamp ||
         kind == Kind::max_reduce;
}

/// What a tensor in memory has beside the in-tile axes.
enum class Place { param, chunk, token };

struct Tensor {
  std::string name;
  Place place = Place::param;
  Axes axes;
  Storage storage;
  int64_t every = 0;  ///< not 0: of each tile the first row of every sub-chunk of so many rows, 0 where it is absent
  bool optional = false;
  double absent = 0;  ///< what a missing optional input reads as
};

struct Step {
  Kind kind;
  kda::Section section;
  std::array<int, 3> operands{-1, -1, -1};  ///< value numbers
  int result = -1;
  Axes over;                 ///< sum, max_reduce, tile_sum: the in-tile axes summed over
  bool of_products = false;  ///< sum: operands 1 and 2 are the factors, for the fma leaf; tile_sum: operand 1 the terms
  bool exclusive = false, reverse = false;
  double number = 0,
         upper =
             0;  ///< constant; to_fixed_small_side: factor; shift: fill; clamp: lower and upper; scale_exactly: factor
  int64_t amount = 0;      ///< shift; boundary: rows of a sub-chunk; to_fixed: the limit in units
  int fraction_bits = -1;  ///< of the fixed-point operands or result; -1: there are none
  Storage storage;         ///< round
  int index = -1;          ///< input: tensor; tile_sum, and what has a held value or branch: running number
};

struct Value {
  Axes axes;
  kda::Section section;
  int fraction_bits;  ///< -1: a float
  int slot = -1;      ///< array that holds it; arrays of the tile phase are reused
};

struct Write {
  int value;
  int tensor;  ///< index into Program::outputs
  bool is_tap;
};

struct Program {
  int64_t chunk = 1, dim = 1;
  std::vector<Tensor> inputs, outputs;
  std::vector<Value> values;
  std::vector<Step> steps;
  std::vector<Write> writes;
  int slots = 0, held = 0, tile_sums = 0;
};

/// `taps`: user names of inner values to write as further outputs, in f64. Throws SpecError for a kernel that cannot be
/// evaluated tile by tile and UsageError for an unknown tap.
Program build_program(kda::KernelOp kernel, const std::vector<std::string>& taps);

}  // namespace kdagen::evaluator
