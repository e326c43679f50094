// SPDX-License-Identifier: Apache-2.0
// Symbolic constants: coefficient * product(symbol^power), exact under * and /.
#pragma once
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace kdagen {

/// A named number inside a Constant, for instance lower_bound^1 or ln2^-1.
struct Symbol {
  std::string name;
  double value = 1.0;
  int power = 1;
  bool operator==(const Symbol& other) const = default;
};

/// coefficient * product(symbol.value ^ symbol.power). Symbols are sorted by name, powers are never zero, so that
/// lower_bound * log2e * ln2 is lower_bound, with no rounding in between.
class Constant {
 public:
  Constant(double coefficient = 1.0) : coefficient_(coefficient) {}
  static Constant symbol(std::string name, double value) {
    Constant result;
    result.symbols_.push_back({std::move(name), value, 1});
    return result;
  }

  double coefficient() const { return coefficient_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }

  /// The same symbols with another coefficient.
  Constant with_coefficient(double coefficient) const {
    Constant result = *this;
    result.coefficient_ = coefficient;
    return result;
  }

  /// The number, in double.
  double value() const {
    double result = coefficient_;
    for (const Symbol& s : symbols_) result *= std::pow(s.value, s.power);
    return result;
  }

  /// Why the constant cannot be used, or an empty string.
  std::string defect() const {
    if (!defect_.empty()) return defect_;
    const double number = value();
    if (std::isnan(number)) return "the constant is not a number";
    if (std::abs(number) > std::numeric_limits<float>::max()) return "the constant is beyond the range of float";
    return "";
  }

  friend Constant operator-(Constant c) {
    c.coefficient_ = -c.coefficient_;
    return c;
  }
  friend Constant operator*(const Constant& a, const Constant& b) { return combine(a, b, 1); }
  friend Constant operator/(const Constant& a, const Constant& b) { return combine(a, b, -1); }

 private:
  static Constant combine(const Constant& a, const Constant& b, int sign) {
    Constant result = a;
    result.coefficient_ = sign > 0 ? a.coefficient_ * b.coefficient_ : a.coefficient_ / b.coefficient_;
    if (result.defect_.empty()) result.defect_ = b.defect_;
    if (sign < 0 && b.value() == 0) result.defect_ = "the constant divides by zero";
    for (const Symbol& s : b.symbols_) result.multiply(s, sign);
    return result;
  }

  void multiply(const Symbol& s, int sign) {
    auto at = symbols_.begin();
    while (at != symbols_.end() && at->name < s.name) ++at;
    if (at == symbols_.end() || at->name != s.name) {
      symbols_.insert(at, {s.name, s.value, sign * s.power});
      return;
    }
    if (at->value != s.value) defect_ = "the constant " + s.name + " has two values, from two option sets";
    const long long power = static_cast<long long>(at->power) + static_cast<long long>(sign) * s.power;
    if (power > 1000 || power < -1000) {
      defect_ = "the power of " + s.name + " is beyond +-1000";
      return;
    }
    at->power = static_cast<int>(power);
    if (at->power == 0) symbols_.erase(at);
  }

  double coefficient_ = 1.0;
  std::vector<Symbol> symbols_;
  std::string defect_;
};

/// Literals beside a Constant keep the result a Constant.
inline Constant operator*(double a, const Constant& b) { return Constant(a) * b; }
inline Constant operator*(const Constant& a, double b) { return a * Constant(b); }
inline Constant operator/(double a, const Constant& b) { return Constant(a) / b; }
inline Constant operator/(const Constant& a, double b) { return a / Constant(b); }

/// ln 2, and its reciprocal as the same symbol to the power -1: a product of both is exactly 1.
inline const Constant ln2 = Constant::symbol("ln2", 0.693147180559945309417);
inline const Constant log2e = 1.0 / ln2;

}  // namespace kdagen
