// SPDX-License-Identifier: Apache-2.0
// How one op reads, given how its operands read.
#pragma once
#include <string>

#include "codegen/explain/formulas.h"
#include "llvm/ADT/ArrayRef.h"

namespace kdagen {

/// A formula and how tightly it binds.
struct Formula {
  enum Binding { choice, comparison, sum, product, sign, power, atom };
  std::string text;
  Binding binding = atom;
};

/// A name as this notation writes it.
Formula name_formula(const std::string& name, Notation notation);
/// The formula of the op over its operands' formulas.
Formula op_formula(mlir::Operation* op, llvm::ArrayRef<Formula> operands, Notation notation);

}  // namespace kdagen
