// SPDX-License-Identifier: Apache-2.0
// Brings a kernel into the form the scheduler maps: one primitive per op.
#pragma once
#include "codegen/ir/Dialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace kdagen::schedule {

/// In place: sigmoid and its derivative share e = 2^(-|z| log2e) and r = 1/(1+e); softplus becomes max(z,0) + log1p(e);
/// a sum over columns and rows becomes two sums, columns first; outputs get values with all their axes. Then
/// common subexpressions are shared and dead ops removed, products of a backward fused into sums (contract.h), and ops
/// with normal arguments marked (normal_arguments.h).
void normalise(mlir::ModuleOp module);

}  // namespace kdagen::schedule
