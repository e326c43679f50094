// SPDX-License-Identifier: Apache-2.0
// Small questions and actions that every rewrite needs.
#pragma once
#include "codegen/ir/Builder.h"
#include "codegen/ir/Dialect.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/PatternMatch.h"

namespace kdagen::kda {

/// Whether a value depends on a cotangent input. Such a value is linear in the cotangents; all others are the
/// forward's.
bool depends_on_cotangent(mlir::Value value);
/// The same for many values, while no op is erased.
class CotangentDependence {
 public:
  explicit CotangentDependence(mlir::Block& block);
  bool of(mlir::Value value);

 private:
  mlir::Operation* first_ = nullptr;  // the block's first cotangent
  llvm::DenseMap<mlir::Operation*, bool> known_;
};
/// Whether a value of the forward is computed by its backward as `other`, or read there as a residual.
bool same_value(mlir::Value value, mlir::Value other);
/// Whether a comes before b in the kernel.
bool before(mlir::Value a, mlir::Value b);
/// Whether a and b have the same axes / all of a's axes are axes of b.
bool same_axes(mlir::Value a, mlir::Value b);
bool axes_within(mlir::Value a, mlir::Value b);
/// The names in an op's `over`.
std::vector<std::string> axes_of(mlir::ArrayAttr over);
/// The value behind broadcasts.
mlir::Value without_broadcast(mlir::Value value);
/// The location without the user's name, for values inside the formula of a named one.
mlir::Location unnamed(mlir::Location location);
/// A name of the replaced value moves to `value` if that has none.
void hand_over_name(mlir::Value replaced, mlir::Value value);
/// Puts every op after its operands; ops that stand so already keep their order. For rewrites that share a value among
/// users that stand before it, or build one where an operand of it is yet to come.
void put_after_operands(KernelOp kernel);
/// Replaces op's result by `value`, broadcast to the same axes, and erases op.
void replace(mlir::RewriterBase& rewriter, mlir::Operation* op, mlir::Value value);

}  // namespace kdagen::kda
