// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/products.h"

#include <cmath>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

constexpr size_t most_terms = 64;
constexpr size_t most_factors = 64;  // a product of more is a factor itself: n squarings would have 2^n
constexpr unsigned most_depth = 48;  // linear ops on top of one another that a linear form looks through

void order_factors(SmallVector<Value>& factors) { llvm::stable_sort(factors, before); }

bool is_coefficient(Value value) { return coefficient_scalar(value).has_value(); }

/// Opens products into factors.
class Opener {
 public:
  explicit Opener(Through through) : through_(through) {}

  void collect(Value value, Product& product) {
    value = without_broadcast(value);
    if (auto scalar = coefficient_scalar(value)) {
      product.coefficient = product.coefficient * *scalar;
    } else if (auto op = value.getDefiningOp<NegOp>()) {
      product.coefficient = -product.coefficient;
      collect(op.getX(), product);
    } else if (factors(value) == 0) {
      product.factors.push_back(value);
    } else if (auto op = value.getDefiningOp<MulOp>()) {
      collect(op.getA(), product);
      collect(op.getB(), product);
    } else {
      auto div = value.getDefiningOp<DivOp>();
      product.coefficient = product.coefficient * coefficient_scalar(div.getB())->inverse();
      collect(div.getA(), product);
    }
  }

 private:
  /// How many factors a product is opened into; 0 for what is a factor itself.
  size_t factors(Value value) {
    auto mul = value.getDefiningOp<MulOp>();
    auto div = value.getDefiningOp<DivOp>();
    if (!mul && !(div && is_coefficient(div.getB()))) return 0;
    auto [known, added] = factors_.try_emplace(value, 0);
    if (!added || !through_(value)) return known->second;
    size_t count = mul ? counted(mul.getA()) + counted(mul.getB()) : counted(div.getA());
    return factors_[value] = count <= most_factors ? std::max<size_t>(count, 1) : 0;
  }
  size_t counted(Value value) {
    value = without_broadcast(value);
    if (is_coefficient(value)) return 0;
    if (auto op = value.getDefiningOp<NegOp>()) return counted(op.getX());
    return std::max<size_t>(factors(value), 1);
  }

  Through through_;
  llvm::DenseMap<Value, size_t> factors_;
};

/// Linear forms of values, each made once: a value that is added to itself n times over would be met 2^n times.
class Expansion {
 public:
  Expansion(Through through, llvm::function_ref<bool(Value)> stop, Block& block)
      : through_(through), stop_(stop), dependence_(block) {}

  std::optional<LinearForm> expand(Value value, unsigned depth = 0) {
    value = without_broadcast(value);
    if (depth == most_depth || (depth > 0 && stop_ && stop_(value))) return LinearForm{{{}, value}};
    if (auto known = forms_.find({value, depth}); known != forms_.end()) return known->second;
    auto form = expand_op(value, depth + 1);
    forms_[{value, depth}] = form;
    return form;
  }

 private:
  std::optional<LinearForm> expand_op(Value value, unsigned depth) {
    Operation* op = value.getDefiningOp();
    if (llvm::isa<AddOp>(op)) return sum(op, 1.0, depth);
    if (llvm::isa<SubOp>(op)) return sum(op, -1.0, depth);
    if (auto neg = llvm::dyn_cast<NegOp>(op)) return times(neg.getX(), {Scalar::number(-1.0), {}}, depth);
    if (auto mul = llvm::dyn_cast<MulOp>(op)) {
      bool first = dependence_.of(mul.getA());
      // both: a cotangent stored with an exponent of its own, itself handed over; their product is the cotangent
      if (first && dependence_.of(mul.getB())) return LinearForm{{{}, value}};
      Product factor = product_of(first ? mul.getB() : mul.getA(), through_);
      return times(first ? mul.getA() : mul.getB(), factor, depth);
    }
    if (auto div = llvm::dyn_cast<DivOp>(op); div && is_coefficient(div.getB()))
      return times(div.getA(), {coefficient_scalar(div.getB())->inverse(), {}}, depth);
    return LinearForm{{{}, value}};
  }

  std::optional<LinearForm> times(Value value, const Product& factor, unsigned depth) {
    auto form = expand(value, depth);
    if (!form) return form;
    for (Term& term : *form) {
      if (term.factors.size() + factor.factors.size() > most_factors) return std::nullopt;
      term.multiply(factor);
    }
    return form;
  }

  std::optional<LinearForm> sum(Operation* op, double sign, unsigned depth) {
    auto form = expand(op->getOperand(0), depth);
    auto other = form ? expand(op->getOperand(1), depth) : std::nullopt;
    if (!other) return std::nullopt;
    for (Term& term : *other) {
      term.coefficient.coefficient *= sign;
      add_term(*form, term);
    }
    return form->size() <= most_terms ? form : std::nullopt;
  }

  Through through_;
  llvm::function_ref<bool(Value)> stop_;
  CotangentDependence dependence_;
  llvm::DenseMap<std::pair<Value, unsigned>, std::optional<LinearForm>> forms_;  // by value and depth
};

bool same_symbols(const Scalar& a, const Scalar& b) { return a.symbols == b.symbols; }

/// Multiplies the factors from the left, those within the axes reached so far first.
Value multiply_up(Builder& build, Value product, SmallVector<Value> factors, const Scalar& coefficient) {
  bool scaled = coefficient.is(1.0);
  while (!factors.empty()) {
    auto next = llvm::find_if(factors, [&](Value factor) { return !product || axes_within(factor, product); });
    if (next == factors.end()) {
      if (!scaled) product = build.mul(product, coefficient);
      scaled = true;
      next = std::min_element(factors.begin(), factors.end(), [](Value a, Value b) {
        return type_of(a).getAxes().size() < type_of(b).getAxes().size();
      });
    }
    product = product ? build.mul(product, *next) : *next;
    factors.erase(next);
  }
  if (!product) return build.constant(coefficient);
  return scaled ? product : coefficient.is(-1.0) ? build.neg(product) : build.mul(product, coefficient);
}

}  // namespace

void Product::multiply(const Product& other) {
  coefficient = coefficient * other.coefficient;
  factors.append(other.factors);
  order_factors(factors);
}

bool Product::remove(Value factor) {
  auto it = llvm::find(factors, factor);
  if (it == factors.end()) return false;
  factors.erase(it);
  return true;
}

bool through_all(Value) { return true; }
bool is_exponential(Value value) {
  return (value.getDefiningOp<Exp2Op>() || value.getDefiningOp<ExpOp>()) && section_of(value) == Section::Tile;
}
bool through_exponentials(Value product) {
  llvm::DenseSet<Value> visited;
  SmallVector<Value> pending = {product};
  while (!pending.empty() && visited.size() <= 2 * most_factors) {  // there are half as many factors, too many to open
    Value next = without_broadcast(pending.pop_back_val());
    if (!visited.insert(next).second) continue;
    if (is_exponential(next) || is_coefficient(next)) return true;
    Operation* op = next.getDefiningOp();
    if (llvm::isa<NegOp, MulOp>(op)) llvm::append_range(pending, op->getOperands());
    if (auto div = llvm::dyn_cast<DivOp>(op); div && is_coefficient(div.getB())) return true;
  }
  return false;
}

Product product_of(Value value, Through through) {
  Product product;
  Opener(through).collect(value, product);
  order_factors(product.factors);
  return product;
}

bool Term::like(const Term& other) const { return same_product(other) && same_symbols(coefficient, other.coefficient); }

void add_term(LinearForm& form, const Term& term) {
  for (Term& mine : form) {
    if (!mine.like(term)) continue;
    mine.coefficient.coefficient += term.coefficient.coefficient;
    if (mine.coefficient.coefficient == 0.0) form.erase(&mine);
    return;
  }
  form.push_back(term);
}

/// The cotangent that a product of one starts from, else the value itself.
static Value first_cotangent(Value atom) {
  auto op = atom.getDefiningOp<MulOp>();
  if (!op) return atom;
  return first_cotangent(depends_on_cotangent(op.getA()) ? op.getA() : op.getB());
}

bool term_before(const Term& a, const Term& b) {
  Value first = first_cotangent(a.atom), second = first_cotangent(b.atom);
  if (first != second) return before(first, second);
  return std::lexicographical_compare(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(), before);
}

void order_terms(LinearForm& form) { llvm::stable_sort(form, term_before); }

std::optional<LinearForm> linear_form(Value value, Through through, llvm::function_ref<bool(Value)> stop) {
  auto form = Expansion(through, stop, *value.getParentBlock()).expand(value);
  if (form) order_terms(*form);
  return form;
}

bool same_form(const LinearForm& a, const LinearForm& b) {
  auto close = [](double x, double y) { return std::abs(x - y) <= 1e-12 * std::max(std::abs(x), std::abs(y)); };
  return a.size() == b.size() && llvm::all_of(a, [&](const Term& term) {
           return llvm::any_of(b, [&](const Term& other) {
             return term.like(other) && close(term.coefficient.coefficient, other.coefficient.coefficient);
           });
         });
}

static bool holds_exponential(Value value) {
  return llvm::any_of(product_of(value, through_exponentials).factors, is_exponential);
}

/// The product of two forward values where the forward has it, before the insertion point.
static Value existing_product(Builder& build, Value a, Value b) {
  Operation& here = *build.raw().getInsertionPoint();
  for (Operation* user : a.getUsers())
    if (auto mul = llvm::dyn_cast<MulOp>(user); mul && mul->isBeforeInBlock(&here))
      if ((mul.getA() == a && mul.getB() == b) || (mul.getA() == b && mul.getB() == a)) return mul;
  return {};
}

/// Exponentials that the forward multiplies by one another stay together: 2^b * 2^-a is small where 2^-a is large.
static void join_exponentials(Builder& build, SmallVector<Value>& factors) {
  for (size_t i = 0; i < factors.size(); ++i)
    for (size_t j = i + 1; j < factors.size(); ++j) {
      if (!holds_exponential(factors[i]) || !holds_exponential(factors[j])) continue;
      Value joined = existing_product(build, factors[i], factors[j]);
      if (!joined) continue;
      factors[i] = joined;
      factors.erase(factors.begin() + j);
      return join_exponentials(build, factors);
    }
}

Value build_product(Builder& build, const Product& product, Value atom) {
  SmallVector<Value> factors(product.factors);
  join_exponentials(build, factors);
  llvm::stable_sort(factors, [](Value a, Value b) { return holds_exponential(a) > holds_exponential(b); });
  return multiply_up(build, atom, factors, product.coefficient);
}

Scalar common_factor(llvm::ArrayRef<Scalar> scalars) {
  Scalar common = scalars.front();
  for (const Scalar& scalar : scalars.drop_front()) {
    if (std::abs(scalar.coefficient) != std::abs(common.coefficient)) common.coefficient = 1.0;
    for (auto entry = common.symbols.begin(); entry != common.symbols.end();) {
      auto other = scalar.symbols.find(entry->first);
      int64_t mine = entry->second.power, theirs = other == scalar.symbols.end() ? 0 : other->second.power;
      if (theirs == 0 || (mine > 0) != (theirs > 0)) {
        entry = common.symbols.erase(entry);
        continue;
      }
      entry->second.power = mine > 0 ? std::min(mine, theirs) : std::max(mine, theirs);
      ++entry;
    }
  }
  bool all_negative = llvm::all_of(scalars, [](const Scalar& scalar) { return scalar.coefficient < 0; });
  common.coefficient = std::abs(common.coefficient) * (all_negative ? -1.0 : 1.0);
  return common;
}

Value build_sum(Builder& build, llvm::ArrayRef<Weighted> terms) {
  if (terms.empty()) return {};
  SmallVector<Scalar> scalars;
  for (const Weighted& term : terms) scalars.push_back(term.coefficient);
  Scalar common = common_factor(scalars);
  auto weighted = [&](const Scalar& scalar, Value value) {
    return scalar.is(1.0) ? value : scalar.is(-1.0) ? build.neg(value) : build.mul(value, scalar);
  };
  // a positive summand first, so that the others follow as + or -
  auto first =
      llvm::find_if(terms, [&](const Weighted& term) { return (term.coefficient * common.inverse()).coefficient > 0; });
  Value total = weighted(first->coefficient * common.inverse(), first->value);
  for (const Weighted& term : terms) {
    if (&term == first) continue;
    Scalar scalar = term.coefficient * common.inverse();
    bool minus = scalar.coefficient < 0;
    Value value = weighted(minus ? -scalar : scalar, term.value);
    total = minus ? build.sub(total, value) : build.add(total, value);
  }
  return weighted(common, total);
}

static bool is_sum_op(Value value) { return value.getDefiningOp<AddOp>() || value.getDefiningOp<SubOp>(); }

bool is_sum(Value value) {
  while (true) {
    value = without_broadcast(value);
    if (is_sum_op(value)) return true;
    auto op = value.getDefiningOp<NegOp>();
    if (!op) return false;
    value = op.getX();
  }
}

bool is_sum_root(Value value) {
  if (!value.hasOneUse()) return true;
  Operation* user = *value.user_begin();
  if (llvm::isa<AddOp, SubOp>(user)) return false;
  if (llvm::isa<NegOp, BroadcastOp>(user)) return is_sum_root(user->getResult(0));
  return true;
}

static void collect_summands(Value value, double sign, bool top, SmallVector<Weighted>& result) {
  Value inner = without_broadcast(value);
  if (top || value.hasOneUse()) {
    if (auto op = inner.getDefiningOp<AddOp>(); op && (top || inner.hasOneUse())) {
      collect_summands(op.getA(), sign, false, result);
      return collect_summands(op.getB(), sign, false, result);
    }
    if (auto op = inner.getDefiningOp<SubOp>(); op && (top || inner.hasOneUse())) {
      collect_summands(op.getA(), sign, false, result);
      return collect_summands(op.getB(), -sign, false, result);
    }
    if (auto op = inner.getDefiningOp<NegOp>(); op && (top || inner.hasOneUse()))
      return collect_summands(op.getX(), -sign, top, result);
  }
  result.push_back({Scalar::number(sign), value});
}

SmallVector<Weighted> summands(Value sum) {
  SmallVector<Weighted> all, result;
  collect_summands(sum, 1.0, true, all);
  for (const Weighted& part : all) {
    auto same = llvm::find_if(result, [&](const Weighted& other) { return other.value == part.value; });
    if (same == result.end())
      result.push_back(part);
    else
      same->coefficient.coefficient += part.coefficient.coefficient;
  }
  llvm::erase_if(result, [](const Weighted& part) { return part.coefficient.coefficient == 0.0; });
  return result;
}

}  // namespace kdagen::kda
