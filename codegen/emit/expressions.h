// SPDX-License-Identifier: Apache-2.0
// Element-wise ops as C++ expressions.
#pragma once
#include <functional>
#include <string>

#include "codegen/emit/names.h"

namespace kdagen::emit {

/// An expression's text and how tightly it binds (as in C++).
struct Expression {
  enum Binding { Choice, Comparison, Sum, Product, Unary, Primary };
  std::string text;
  Binding binding = Primary;
  /// The text, in parentheses where `at_least` asks for a tighter binding.
  std::string in(Binding at_least) const { return binding >= at_least ? text : "(" + text + ")"; }
};

/// A float literal that reads back to the same bits: 0.5f, 1e-06f, -1.0f.
std::string float_literal(double value);

/// The expression of an element-wise op; `operand(value)` gives those of its operands. `row` and `column` are the
/// expressions of the row and column number of the element; `rows` that of the tile's row count.
struct ElementContext {
  std::function<Expression(mlir::Value)> operand;
  std::string row, column, rows;
};
Expression expression(mlir::Operation* op, const ElementContext& context);

}  // namespace kdagen::emit
