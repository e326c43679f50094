// SPDX-License-Identifier: Apache-2.0
// Views of values: a product is coefficient * factors; a linear form is a sum of coefficient * factors * atom, the form
// of every value that depends on cotangents (it is linear in them, with coefficients from the forward).
#pragma once
#include <optional>

#include "codegen/rewrite/values.h"

namespace kdagen::kda {

/// coefficient * factors[0] * factors[1] * ..., the factors in program order, repeated ones as often as they occur.
struct Product {
  Scalar coefficient;
  llvm::SmallVector<mlir::Value> factors;

  void multiply(const Product& other);
  /// Removes one occurrence; false if there is none.
  bool remove(mlir::Value factor);
  bool contains(mlir::Value factor) const { return llvm::is_contained(factors, factor); }
};

/// Which products are looked into; others are factors themselves. Coefficients (constants that can be divided by),
/// signs and broadcasts are always looked through.
using Through = llvm::function_ref<bool(mlir::Value)>;
/// Every product is looked into.
bool through_all(mlir::Value product);
/// Only products with an exponential or a constant are: the decay factors and what scales them.
bool through_exponentials(mlir::Value product);
/// 2^x or e^x of something that varies from tile to tile.
bool is_exponential(mlir::Value value);

Product product_of(mlir::Value value, Through through);

struct Term : Product {
  mlir::Value atom;
  /// Same factors, atom and symbols; the number in front may differ.
  bool like(const Term& other) const;
  /// Same factors and atom; the coefficient may differ.
  bool same_product(const Term& other) const { return atom == other.atom && factors == other.factors; }
};

/// Terms in the order of their atoms, then of their factors; none like another, none with coefficient 0.
using LinearForm = llvm::SmallVector<Term>;

/// The linear form of a value that depends on cotangents. `stop`: sums (other than `value` itself) that stay atoms.
/// Looks through 48 linear ops on top of one another. Nothing if there would be more than 64 terms, or factors in one.
std::optional<LinearForm> linear_form(mlir::Value value, Through through,
                                      llvm::function_ref<bool(mlir::Value)> stop = {});
void add_term(LinearForm& form, const Term& term);
/// The order of terms in a form: by the cotangent they start from, then by their factors.
bool term_before(const Term& a, const Term& b);
void order_terms(LinearForm& form);
/// Equal term by term.
bool same_form(const LinearForm& a, const LinearForm& b);

/// atom * exponentials * other factors * coefficient, from the left; what is smaller (a scalar a row, a value a column)
/// is multiplied before it meets a larger factor. `atom` may be null (a product of forward values).
mlir::Value build_product(Builder& build, const Product& product, mlir::Value atom);
inline mlir::Value build_term(Builder& build, const Term& term) { return build_product(build, term, term.atom); }
/// scale * (sum of coefficient * value): signs become subtractions, a symbolic factor common to all is in `scale` and
/// applied last. Null for an empty sum.
struct Weighted {
  Scalar coefficient;
  mlir::Value value;
};
mlir::Value build_sum(Builder& build, llvm::ArrayRef<Weighted> terms);
/// The largest symbolic factor common to all, with the first coefficient's number if all have the same size.
Scalar common_factor(llvm::ArrayRef<Scalar> scalars);

/// Whether `factor` is a factor of every summand of value, and value / factor with the association that value has.
bool divisible(mlir::Value value, mlir::Value factor);
mlir::Value divide(Builder& build, mlir::Value value, mlir::Value factor);

/// Whether `value` is a sum: an add, a sub, or a sign or broadcast in front of one.
bool is_sum(mlir::Value value);
/// Whether `value` is not merely a summand of one other sum.
bool is_sum_root(mlir::Value value);
/// The summands of a sum, with signs, each value once: looks through adds, subs and signs that have no other use.
llvm::SmallVector<Weighted> summands(mlir::Value sum);

}  // namespace kdagen::kda
