// SPDX-License-Identifier: Apache-2.0
// Evaluates a kda.kernel, forward or backward, before or after rewriting, on the CPU: the judge of everything emitted.
//
// Arrays are dense, axes in the canonical order whatever the layout in memory: token tensors [B*T, H, D] (dead rows
// included; without an axis that the tensor lacks), per-chunk tensors [capacity, H, D] by dense tile number, params
// [H, D], [H], [D] or []; anchors [capacity, sub-chunks, H, D]. Rows after the last sequence, surplus tiles and
// sub-chunks without rows are 0 in every output and never read.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/evaluator/instance.h"
#include "codegen/ir/Dialect.h"

namespace kdagen::evaluator {

/// Dense values in canonical order; values.size() is the product of `shape`.
struct Array {
  std::vector<double> values;
  std::vector<int64_t> shape;
};
using Arrays = std::map<std::string, Array>;

/// f64: every op in double. f32: every op rounded to float, sums in the orders of orders.h, kda.fma by std::fma,
/// kda.round really rounding; functions (2^x, 1/x, ...) by the C library in float, where a GPU has approximations.
enum class Arithmetic { f64, f32 };

/// What finite differences hold at a base point: the values of kda.detach and of comparisons, and which branch relu,
/// abs, clamp and every kind of max and min take. In program order, one list of numbers per op and tile.
using HeldValues = std::vector<std::vector<std::vector<double>>>;

struct EvaluateOptions {
  Arithmetic arithmetic = Arithmetic::f64;
  /// f64 only: kda.round really rounds (f32 always does). Off: the identity.
  bool obey_rounds = false;
  /// Outputs are rounded to their storage type.
  bool store_rounding = false;
  /// Inputs are rounded to their storage type on entry; off only for finite differences.
  bool round_inputs = true;
  /// f64 only: fill Result::error_bounds.
  bool running_error = false;
  /// Fill Result::term_norms.
  bool term_norms = false;
  /// Inner values to return, by the user's name.
  std::set<std::string> taps;
  /// Filled if not null.
  HeldValues* record_held = nullptr;
  /// Taken as those values and branches if not null.
  const HeldValues* held = nullptr;
};

struct Result {
  /// Every output by tensor name (anchors are part of the value), and the taps.
  Arrays tensors;
  /// With running_error: beside each element of `tensors` a first-order bound on |float32 - exact| of the same program
  /// (number.h); with store_rounding the storage rounding is included.
  Arrays error_bounds;
  /// With term_norms, for the outputs that are sums over all tiles: beside each element the square root of the sum of
  /// its squared terms (one a row of a tile). An output that is no linear function of such sums is left out.
  Arrays term_norms;
};

/// Inputs by tensor name. An optional input that is absent reads as its declared `absent`. Throws UsageError when a
/// required input is missing or has the wrong number of elements, SpecError when the kernel needs a value before it can
/// be known.
Result evaluate(kda::KernelOp kernel, const Arrays& inputs, const Instance& instance,
                const EvaluateOptions& options = {});

/// For every output of a forward kernel, E = the sum of the arguments (log2) of the exponential factors in its product,
/// 0 where there is none: with cotangents scaled by 2^-E, output * cotangent is O(1).
Arrays output_exponents(kda::KernelOp forward, const Arrays& inputs, const Instance& instance);

/// A tensor of a kernel, as memory sees it.
struct TensorInfo {
  std::string name, role, dtype;  ///< role: input, param, cotangent, residual, output, gradient, ...; dtype: bf16, ...
  std::vector<std::string> axes;  ///< the spec's axes in canonical order, batch and chunk left out
  std::vector<int64_t> shape;     ///< dense, as in Array
  bool is_output = false, optional = false, per_chunk = false;
  int64_t every =
      0;  ///< not 0: [capacity, sub-chunks, H, D], a row of each sub-chunk of so many rows; `axes` has the rows
  std::string anchor_tensor = {};  ///< stored is value * 2^(anchor_sign * n), n in the output of this name by sub-chunk
  int64_t anchor_sign = 1;
};
/// The kernel's tensors, inputs first, in program order.
std::vector<TensorInfo> tensors_of(kda::KernelOp kernel, const Instance& instance);

}  // namespace kdagen::evaluator
