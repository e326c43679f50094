// SPDX-License-Identifier: Apache-2.0
// Anchors by sub-chunk: numbers that are stored as value * 2^(sign * n), the integers n being an output of their own.
//
// n is rint of a sum of floats, and near a tie two programs may take neighbours; the numbers that they store then
// differ by a factor of 2 and say the same. So outputs are compared as if both programs had stored with the anchors of
// the reference, and each program is given cotangents of the numbers that it would have stored itself. Both change by
// powers of two alone.
#pragma once
#include "codegen/evaluator/evaluator.h"
#include "specs/workloads/workload.h"
#include "tools/judge/judge.h"

namespace kdagen {

/// Cotangents grow with 2^-exponent of their outputs (generic workload), and the backward of an anchored one multiplies
/// them by the 2^n of the stored number, too: such exponents are taken for 2^-50 at least, or floats would overflow.
void limit_exponents_of_anchored(kda::KernelOp forward, Tensors& exponents);

class Anchors {
 public:
  Anchors(kda::KernelOp forward, const Shape& shape);
  /// Whether an output of the forward has any.
  bool any() const { return !outputs_.empty(); }
  /// Of the tensors of anchors, each once.
  std::vector<std::string> names() const;

  /// Makes of `tensors`, stored with the anchors among them, what they are stored with the anchors of `to`.
  void restate_outputs(Tensors& tensors, const Tensors& to) const;
  /// Makes of the cotangents among `inputs`, of numbers stored with the anchors of `from`, those of numbers stored with
  /// the anchors that `kernel`, in float64 and with its round nodes obeyed or not, makes of the other inputs.
  void restate_cotangents(evaluator::Arrays& inputs, const Tensors& from, kda::KernelOp kernel, bool obey_rounds) const;
  /// A verdict for each tensor of anchors: none may be off by more than 1.
  std::vector<Verdict> compare(const Tensors& expected, const Tensors& actual) const;

 private:
  struct Output {
    evaluator::TensorInfo info, anchor;
  };
  using Values = std::vector<double>;

  /// The anchor of each row, of [capacity, sub-chunks, ...].
  Values by_rows(const Output& output, const Values& anchors) const;
  /// values * 2^(sign * (to - from)), anchors by rows.
  void scale(const Output& output, int sign, const Values& from, const Values& to, Values& values) const;

  std::vector<Output> outputs_;
  Shape shape_;
};

}  // namespace kdagen
