// SPDX-License-Identifier: Apache-2.0
// Graph bytes (docs/architecture.md section 2) -> the forward kernel in kda IR.
#pragma once
#include <string_view>

#include "codegen/ir/Dialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace kdagen {

/// The one `kda.kernel` (direction "fwd") of a graph, in a module of its own. Values over rows have the axes
/// {batch, chunk, rows, ...}, values per chunk {batch, chunk, ...}, parameters neither. The user's names and lines are
/// the ops' locations. Outputs with a static anchor keep `anchor_kind`; codegen/analysis/anchors.h chooses the
/// exponent. Throws UsageError for bytes that are no graph, SpecError (file:line) for a graph that is no kernel.
mlir::OwningOpRef<mlir::ModuleOp> import_graph(std::string_view json, mlir::MLIRContext& context);

/// The kernel of a module that holds one. Throws KdagenBug otherwise.
kda::KernelOp only_kernel(mlir::ModuleOp module);

}  // namespace kdagen
