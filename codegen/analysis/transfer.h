// SPDX-License-Identifier: Apache-2.0
// The interval of an op's result from those of its operands.
#pragma once
#include "codegen/analysis/ranges.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace kdagen {

/// Asks for another value's interval (of an operand, or of anything an operand depends on).
using IntervalOf = llvm::function_ref<Interval(mlir::Value)>;

Interval transfer(mlir::Operation* op, const Assumptions& assumptions, IntervalOf of);

}  // namespace kdagen
