// SPDX-License-Identifier: Apache-2.0
// The tensors that a derived kernel reads and writes besides the spec's own: cotangents, gradients, residuals, taps.
#pragma once
#include <string>
#include <vector>

#include "codegen/ir/Builder.h"
#include "codegen/options.h"

namespace kdagen {

/// The cotangent of an output, as f32 in the output's axes: read as the caller stores it, times the output's unit.
mlir::Value cotangent_input(kda::Builder& build, kda::OutputOp output, const CompileOptions& options);

/// Writes `value` with the axes of `type`.
void write_tensor(kda::Builder& build, mlir::Value value, const std::string& name, llvm::StringRef role,
                  mlir::Type storage, kda::ValueType type);

/// bf16, fp16 or f32.
mlir::Type storage_of(mlir::OpBuilder& builder, const std::string& dtype);

/// The values that `save` names. Throws UsageError for a name that is no inner value of the tiles.
llvm::SmallVector<mlir::Value> find_saved(kda::KernelOp kernel, const std::vector<std::string>& names);
/// The forward's side of a residual: an extra f32 output, unless the value is an f32 output already.
void write_residual(kda::KernelOp kernel, mlir::Value value);
/// The backward's side: every use of the value reads the tensor of its name instead.
void read_residual(kda::KernelOp kernel, mlir::Value value);

/// Throws UsageError if an `upstream.NAME` names no output.
void check_output_names(kda::KernelOp forward, const CompileOptions& options);
/// Throws SpecError if two tensors of the kernel have one name (an input dx beside the gradient of x).
void check_tensor_names(kda::KernelOp kernel);

}  // namespace kdagen
