// SPDX-License-Identifier: Apache-2.0
// Symbolic constants: coefficient * product of symbol^power. Exact under multiplication, so ln2 * ln2^-1 is 1.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "codegen/ir/Dialect.h"

namespace kdagen::kda {

struct Scalar {
  struct Symbol {
    double value;
    int64_t power;
    bool operator==(const Symbol&) const = default;
  };
  double coefficient = 1.0;
  std::map<std::string, Symbol> symbols;

  static Scalar number(double value);
  static Scalar ln2();
  /// The scalar of a kda.constant op.
  static Scalar of(ConstantOp op);
  static Scalar of(double coefficient, mlir::ArrayAttr symbols);

  double value() const;
  bool is_number() const { return symbols.empty(); }
  bool is(double number) const { return is_number() && coefficient == number; }
  Scalar operator*(const Scalar& other) const;
  Scalar inverse() const;
  Scalar operator-() const;
  bool operator==(const Scalar& other) const = default;
  mlir::ArrayAttr symbols_attr(mlir::MLIRContext* context) const;
  /// As a person writes it: "lower_bound*log2e", "-0.5", "scale".
  std::string text() const;
};

/// The scalar a value stands for if it is a kda.constant (looking through broadcasts).
std::optional<Scalar> constant_scalar(mlir::Value value);
/// The same if algebra may take it out of a product, cancel it and divide by it: it has a finite inverse. Other
/// constants (0 above all) are factors like any value.
std::optional<Scalar> coefficient_scalar(mlir::Value value);
/// Whether the op is its first operand, kept within the largest float: min(x, M) or max(x, -M). As a number it is x.
bool keeps_finite(mlir::Operation* op);

}  // namespace kdagen::kda
