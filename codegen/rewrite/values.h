// SPDX-License-Identifier: Apache-2.0
// Small questions and actions that every rewrite needs.
#pragma once
#include "codegen/ir/Builder.h"
#include "codegen/ir/Dialect.h"
#include "mlir/IR/PatternMatch.h"

namespace kdagen::kda {

/// Whether a value depends on a cotangent input. Such a value is linear in the cotangents; all others are the forward's.
bool depends_on_cotangent(mlir::Value value);
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
/// Replaces op's result by `value`, broadcast to the same axes, and erases op.
void replace(mlir::RewriterBase& rewriter, mlir::Operation* op, mlir::Value value);

}  // namespace kdagen::kda
