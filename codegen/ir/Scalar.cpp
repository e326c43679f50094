// SPDX-License-Identifier: Apache-2.0
#include "codegen/ir/Scalar.h"

#include <cmath>
#include <numbers>

#include <fmt/format.h>

using namespace mlir;

namespace kdagen::kda {

Scalar Scalar::number(double value) {
  Scalar scalar;
  scalar.coefficient = value;
  return scalar;
}

Scalar Scalar::ln2() {
  Scalar scalar;
  scalar.symbols["ln2"] = {std::numbers::ln2, 1};
  return scalar;
}

Scalar Scalar::of(double coefficient, ArrayAttr symbols) {
  Scalar scalar = number(coefficient);
  for (Attribute attribute : symbols) {
    auto symbol = llvm::cast<SymbolAttr>(attribute);
    scalar.symbols[symbol.getName().str()] = {symbol.getValue().getValueAsDouble(), symbol.getPower()};
  }
  return scalar;
}
Scalar Scalar::of(ConstantOp op) { return of(op.getCoefficient().convertToDouble(), op.getSymbols()); }

double Scalar::value() const {
  double result = coefficient;
  for (const auto& [name, symbol] : symbols) result *= std::pow(symbol.value, double(symbol.power));
  return result;
}

Scalar Scalar::operator*(const Scalar& other) const {
  Scalar result = *this;
  result.coefficient *= other.coefficient;
  for (const auto& [name, symbol] : other.symbols) {
    auto& mine = result.symbols.emplace(name, Symbol{symbol.value, 0}).first->second;
    mine.power += symbol.power;
    if (mine.power == 0) result.symbols.erase(name);
  }
  return result;
}

Scalar Scalar::inverse() const {
  Scalar result = *this;
  result.coefficient = 1.0 / coefficient;
  for (auto& [name, symbol] : result.symbols) symbol.power = -symbol.power;
  return result;
}

Scalar Scalar::operator-() const {
  Scalar result = *this;
  result.coefficient = -coefficient;
  return result;
}

ArrayAttr Scalar::symbols_attr(MLIRContext* context) const {
  OpBuilder builder(context);
  SmallVector<Attribute> attributes;
  for (const auto& [name, symbol] : symbols)
    attributes.push_back(
        SymbolAttr::get(context, builder.getStringAttr(name), builder.getF64FloatAttr(symbol.value), symbol.power));
  return builder.getArrayAttr(attributes);
}

std::string Scalar::text() const {
  std::string product;
  auto factor = [&](const std::string& text) { product += (product.empty() ? "" : "*") + text; };
  for (const auto& [name, symbol] : symbols) {
    // 1/ln2 reads as log2e
    bool log2e = name == "ln2" && symbol.power < 0;
    int64_t power = log2e ? -symbol.power : symbol.power;
    std::string base = log2e ? "log2e" : name;
    factor(power == 1 ? base : fmt::format("{}^{}", base, power));
  }
  if (product.empty() && std::abs(coefficient) == std::numeric_limits<float>::max())
    return coefficient > 0 ? "largest_float" : "-largest_float";
  if (product.empty()) return fmt::format("{}", coefficient);
  if (coefficient == 1.0) return product;
  if (coefficient == -1.0) return "-" + product;
  return fmt::format("{}*{}", coefficient, product);
}

std::optional<Scalar> constant_scalar(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) return constant_scalar(broadcast.getX());
  if (auto op = value.getDefiningOp<ConstantOp>()) return Scalar::of(op);
  return std::nullopt;
}

bool keeps_finite(Operation* op) {
  if (!llvm::isa<MinOp, MaxOp>(op)) return false;
  const auto scalar = constant_scalar(op->getOperand(1));
  const double largest = std::numeric_limits<float>::max();
  return scalar && scalar->is(llvm::isa<MinOp>(op) ? largest : -largest);
}

std::optional<Scalar> coefficient_scalar(Value value) {
  auto scalar = constant_scalar(value);
  return scalar && std::isfinite(scalar->value()) && std::isfinite(1.0 / scalar->value()) ? scalar : std::nullopt;
}

}  // namespace kdagen::kda
