// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/projection.h"

#include "codegen/derive/derive.h"
#include "codegen/rewrite/products.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

/// inv = rsqrt(scale * sum over `over` of x^2 + anything).
struct RowNorm {
  Value x, inv;
  Scalar scale;
  ArrayAttr over;
};

std::optional<RowNorm> scaled_square_sum(Value value, Value inv) {
  Product product = product_of(value, through_all);
  auto sum = product.factors.size() == 1 ? product.factors.front().getDefiningOp<SumOp>() : SumOp();
  auto square = sum ? without_broadcast(sum.getX()).getDefiningOp<MulOp>() : MulOp();
  if (!square || square.getA() != square.getB()) return std::nullopt;
  return RowNorm{square.getA(), inv, product.coefficient, sum.getOver()};
}

std::optional<RowNorm> row_norm(Value inv) {
  auto rsqrt = inv.getDefiningOp<RsqrtOp>();
  if (!rsqrt) return std::nullopt;
  if (auto norm = scaled_square_sum(rsqrt.getX(), inv)) return norm;
  auto add = without_broadcast(rsqrt.getX()).getDefiningOp<AddOp>();
  if (!add) return std::nullopt;
  if (auto norm = scaled_square_sum(add.getA(), inv)) return norm;
  return scaled_square_sum(add.getB(), inv);
}

/// The correction  -scale * x * inv^3 * sum(x*dy): dy is (the sum's operand / x) * dy_scale.
struct Correction {
  RowNorm norm;
  Value summand;
  Product dy_scale;
};

std::optional<Correction> correction_with(const Term& term, const RowNorm& norm) {
  auto sum = term.atom.getDefiningOp<SumOp>();
  if (!sum || sum.getOver() != norm.over || !divisible(sum.getX(), norm.x)) return std::nullopt;
  Product rest = term;
  if (!rest.remove(norm.x) || !rest.remove(norm.inv) || !rest.remove(norm.inv) || !rest.remove(norm.inv))
    return std::nullopt;
  rest.coefficient = -(rest.coefficient * norm.scale.inverse());
  return Correction{norm, sum.getX(), rest};
}

/// Linear forms in which x is a factor, whatever it is a product of.
std::optional<LinearForm> form_in(const RowNorm& norm, Value value) {
  return linear_form(value, [&](Value product) { return product != norm.x; });
}

/// inv * dy as a linear form, to be found among the other summands.
std::optional<LinearForm> direct_part(const Correction& correction) {
  auto form = form_in(correction.norm, correction.summand);
  if (!form) return std::nullopt;
  for (Term& term : *form) {
    if (!term.remove(correction.norm.x)) return std::nullopt;
    term.multiply(correction.dy_scale);
    term.multiply({Scalar(), {correction.norm.inv}});
  }
  order_terms(*form);
  return form;
}

Value normalised(Builder& build, const RowNorm& norm) {
  for (Operation* user : norm.x.getUsers()) {
    auto mul = llvm::dyn_cast<MulOp>(user);
    if (!mul || !mul->isBeforeInBlock(&*build.raw().getInsertionPoint())) continue;
    Value a = without_broadcast(mul.getA()), b = without_broadcast(mul.getB());
    if ((a == norm.x && b == norm.inv) || (a == norm.inv && b == norm.x)) return mul;
  }
  return build.mul(norm.x, norm.inv);
}

/// What varies along the axes of the norm's sum: it cannot be taken into the sum.
bool varies_along(Value factor, ArrayAttr over) {
  return llvm::any_of(over,
                      [&](Attribute axis) { return type_of(factor).hasAxis(llvm::cast<StringAttr>(axis).getValue()); });
}

/// (dy - y*(scale*sum(dy*y)))*inv, times what varies along the sum's axes
Value projected(Builder& build, const Correction& correction) {
  const RowNorm& norm = correction.norm;
  Value dy = divide(build, correction.summand, norm.x);
  Product inside = correction.dy_scale, outside;
  for (Value factor : correction.dy_scale.factors)
    if (varies_along(factor, norm.over) && inside.remove(factor)) outside.factors.push_back(factor);
  if (!inside.coefficient.is(1.0) || !inside.factors.empty()) dy = build_product(build, inside, dy);
  Value y = normalised(build, norm);
  Value along = build.mul(build.sum(build.mul(dy, y), axes_of(norm.over)), norm.scale);
  Value result = build.mul(build.sub(dy, build.mul(y, along)), norm.inv);
  return outside.factors.empty() ? result : build_product(build, outside, result);
}

struct Projection {
  IRRewriter rewriter;
  RewriteReport& report;

  /// Tries summand `index` as (or as containing) the correction of `norm`, and finds its dy*inv among the others.
  bool apply(Value root, const RowNorm& norm, SmallVector<Weighted>& parts, size_t index) {
    auto form = form_in(norm, parts[index].value);
    if (!form) return false;
    for (size_t i = 0; i < form->size(); ++i) {
      Term term = (*form)[i];
      term.coefficient = term.coefficient * parts[index].coefficient;
      auto found = correction_with(term, norm);
      auto direct = found ? direct_part(*found) : std::nullopt;
      if (!direct) continue;
      for (size_t other = 0; other < parts.size(); ++other) {
        if (other == index || !matches(norm, parts[other], *direct)) continue;
        form->erase(form->begin() + i);
        rebuild(root, parts, index, other, *form, *found);
        return true;
      }
    }
    return false;
  }

  bool matches(const RowNorm& norm, const Weighted& part, const LinearForm& direct) {
    auto form = form_in(norm, part.value);
    if (!form) return false;
    for (Term& term : *form) term.coefficient = term.coefficient * part.coefficient;
    return same_form(*form, direct);
  }

  void rebuild(Value root, ArrayRef<Weighted> parts, size_t correction_at, size_t direct_at, const LinearForm& others,
               const Correction& found) {
    Operation* op = root.getDefiningOp();
    rewriter.setInsertionPoint(op);
    Builder build(rewriter, unnamed(op->getLoc()));
    SmallVector<Weighted> result;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i == direct_at) result.push_back({Scalar(), projected(build, found)});
      if (i == correction_at)
        for (const Term& term : others) result.push_back({parts[i].coefficient, build_term(build, term)});
      if (i != direct_at && i != correction_at) result.push_back(parts[i]);
    }
    report.fired("projection", op->getLoc());
    replace(rewriter, op, build_sum(build, result));
  }

  bool apply_once(KernelOp kernel) {
    SmallVector<RowNorm> norms;
    for (auto op : kernel.block().getOps<RsqrtOp>())
      if (auto norm = row_norm(op.getResult())) norms.push_back(*norm);
    for (Operation& op : kernel.block()) {
      if (!llvm::isa<AddOp, SubOp>(op) || !is_sum_root(op.getResult(0)) || !depends_on_cotangent(op.getResult(0)))
        continue;
      SmallVector<Weighted> parts = summands(op.getResult(0));
      for (const RowNorm& norm : norms)
        for (size_t index = 0; index < parts.size(); ++index)
          if (depends_on_cotangent(parts[index].value) && apply(op.getResult(0), norm, parts, index)) return true;
    }
    return false;
  }
};

}  // namespace

void projection(KernelOp kernel, RewriteReport& report) {
  Projection projection{IRRewriter(kernel.getContext()), report};
  while (projection.apply_once(kernel)) clean_up(kernel);
}

}  // namespace kdagen::kda
