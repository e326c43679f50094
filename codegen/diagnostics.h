// SPDX-License-Identifier: Apache-2.0
// MLIR's verifier and parser report through diagnostics; these turn them into kdagen's exceptions.
#pragma once
#include <string>
#include <string_view>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace kdagen {

/// Runs the verifier on `op`. Throws KdagenBug naming the step that left the program ill-formed.
void verify_after(mlir::Operation* op, std::string_view step);

/// Parses kda IR as text. Throws UsageError with MLIR's message ("line:column: ...").
mlir::OwningOpRef<mlir::ModuleOp> parse_module(std::string_view text, mlir::MLIRContext& context);

/// The module as text, with locations when `locations`.
std::string module_text(mlir::Operation* op, bool locations = false);

}  // namespace kdagen
