// SPDX-License-Identifier: Apache-2.0
// The graph's op names and how each becomes kda ops.
#pragma once
#include <string>

#include "codegen/import/fields.h"
#include "codegen/ir/Builder.h"

namespace kdagen {

/// The value of a node other than input, param and constant. Throws UsageError for an unknown op or wrong attributes,
/// std::string (a message without place) for a spec that cannot be right: the caller adds file and line.
mlir::Value import_op(kda::Builder& build, const std::string& op, const Fields& node,
                      llvm::ArrayRef<mlir::Value> operands);

/// bf16, fp16 or f32 as an MLIR type; null for anything else.
mlir::Type storage_type(mlir::MLIRContext* context, const std::string& dtype);

}  // namespace kdagen
