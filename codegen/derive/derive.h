// SPDX-License-Identifier: Apache-2.0
// The backward of a forward kernel: reverse accumulation over kda IR. The result is kda IR like any other.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "codegen/ir/Builder.h"
#include "codegen/options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace kdagen {

/// The backward (direction "bwd"), in a module of its own. It recomputes the forward, reads a cotangent d<output> for
/// every output (storage by `upstream`, times the output's unit) and writes d<input> for every input (storage by
/// `grads`) and every param (f32, summed over all tiles). An input that reaches no output gets a zero gradient. A value
/// with a user's name x has its cotangent named dx. Values in `options.save` are read as inputs of role residual.
/// In the result detach(x) is x, and x - detach(x) is 0.
/// Throws SpecError (file:line) for an op without an adjoint, UsageError for names in the options that do not exist.
mlir::OwningOpRef<mlir::ModuleOp> derive(kda::KernelOp forward, const CompileOptions& options);

/// The forward as it will be emitted: with the residuals of `save` as extra f32 outputs, and without detach.
mlir::OwningOpRef<mlir::ModuleOp> prepare_forward(kda::KernelOp forward, const CompileOptions& options);

/// Adds outputs (role tap, f32) with the values of these user's names, inner values and cotangents (d<name>) alike.
/// Throws UsageError naming what there is.
void add_taps(kda::KernelOp kernel, const std::vector<std::string>& names);

/// detach(x) becomes x; x - detach(x) becomes 0 by definition, not by float algebra.
void resolve_detach(kda::KernelOp kernel);

/// Merges equal pure ops (keeping the user's names), drops dead ones, and applies identities that hold for every float:
/// x*1, x/1, x-0, x^1, 2^0, e^0, -(-x), select of equal sides, broadcasts that their only users do not need.
void clean_up(kda::KernelOp kernel);

/// The user's own adjoint for an op, by op name ("kda.pow"): used instead of the rule in Adjoints.cpp, or where there
/// is none; a null rule takes it back. The same contract as AdjointOpInterface::adjoint. Not thread-safe; meant for
/// start-up.
using AdjointRule = std::function<llvm::SmallVector<mlir::Value>(kda::Builder&, mlir::Operation*, mlir::Value dy)>;
void custom_adjoint(const std::string& op_name, AdjointRule rule);

}  // namespace kdagen
