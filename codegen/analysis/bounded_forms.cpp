// SPDX-License-Identifier: Apache-2.0
#include "codegen/analysis/bounded_forms.h"

#include "codegen/ir/Scalar.h"

using namespace mlir;

namespace kdagen {
namespace {
using kda::AxisRole;

constexpr int search_depth = 8;  // norms are written in a few ops; an unlimited search would take 2^ops steps

/// The value behind broadcasts and detach.
Value behind(Value value) {
  while (true) {
    if (auto broadcast = value.getDefiningOp<kda::BroadcastOp>())
      value = broadcast.getX();
    else if (auto detach = value.getDefiningOp<kda::DetachOp>())
      value = detach.getX();
    else
      return value;
  }
}

/// A sum of rows of `of`: those up to r, from r on, all of them, without row r itself if exclusive.
struct RowSum {
  enum Kind { before, after, all } kind;
  bool exclusive;
  Value of;
};

std::optional<RowSum> row_sum(Value value) {
  value = behind(value);
  if (auto scan = value.getDefiningOp<kda::ScanOp>())
    return RowSum{scan.getReverse() ? RowSum::after : RowSum::before, scan.getExclusive(), behind(scan.getX())};
  if (auto last = value.getDefiningOp<kda::LastOp>()) {
    auto sum = row_sum(last.getX());
    if (sum && sum->kind == RowSum::before && !sum->exclusive) return RowSum{RowSum::all, false, sum->of};
  }
  if (auto sum = value.getDefiningOp<kda::SumOp>(); sum && sum.getOver().size() == 1) {
    auto axis = kda::kernel_of(sum.getOperation()).axis(llvm::cast<StringAttr>(sum.getOver()[0]).getValue());
    if (axis.getRole() == AxisRole::Rows) return RowSum{RowSum::all, false, behind(sum.getX())};
  }
  return std::nullopt;
}

/// The number of rows at most in a - b if that is a sum of rows of one value; 0 if it is none.
double rows_of_difference(Value a, Value b, double chunk, Value& of) {
  auto larger = row_sum(a);
  if (!larger) return 0;
  of = larger->of;
  auto smaller = row_sum(b);
  if (smaller && smaller->of == larger->of && larger->kind == RowSum::all && smaller->kind != RowSum::all)
    return smaller->exclusive ? chunk : chunk - 1;
  bool own_row = larger->kind != RowSum::all && !larger->exclusive && larger->of == behind(b);
  return own_row ? chunk - 1 : 0;
}

Interval of_difference(kda::SubOp sub, const Assumptions& assumptions, IntervalOf of) {
  if (auto max = behind(sub.getB()).getDefiningOp<kda::MaxReduceOp>(); max && behind(max.getX()) == behind(sub.getA()))
    return {-Interval::infinity, 0};
  if (!kda::kernel_of(sub.getOperation()).axis(AxisRole::Rows)) return {};
  double chunk = double(assumptions.chunk.value_or(kda::kernel_of(sub.getOperation()).chunk()));
  Value summed;
  if (double rows = rows_of_difference(sub.getA(), sub.getB(), chunk, summed)) return sum_of(of(summed), 0, rows);
  if (double rows = rows_of_difference(sub.getB(), sub.getA(), chunk, summed)) return -sum_of(of(summed), 0, rows);
  return {};
}

/// What a value made of sums over the rows so far is in the first sub-chunk, and by how much it differs, in the later
/// ones, from its value in the last row before.
struct InSubchunk {
  Interval first, later;
};

std::optional<InSubchunk> in_subchunk(Value value, double rows, IntervalOf of, int depth = search_depth) {
  if (depth == 0) return std::nullopt;
  value = behind(value);
  auto inner = [&](Value x) { return in_subchunk(x, rows, of, depth - 1); };
  if (!kda::has_role(value, AxisRole::Rows)) return InSubchunk{of(value), Interval::point(0)};
  if (auto scan = value.getDefiningOp<kda::ScanOp>(); scan && !scan.getReverse()) {
    const Interval x = of(scan.getX());
    if (scan.getExclusive()) return InSubchunk{sum_of(x, 0, rows - 1), sum_of(x, 1, rows)};
    return InSubchunk{sum_of(x, 1, rows), sum_of(x, 1, rows)};
  }
  if (auto neg = value.getDefiningOp<kda::NegOp>())
    if (auto x = inner(neg.getX())) return InSubchunk{-x->first, -x->later};
  if (auto mul = value.getDefiningOp<kda::MulOp>())
    for (auto [a, b] : {std::pair(mul.getA(), mul.getB()), std::pair(mul.getB(), mul.getA())})
      if (auto x = kda::constant_scalar(b) ? inner(a) : std::nullopt)
        return InSubchunk{x->first * of(b), x->later * of(b)};
  if (!llvm::isa<kda::AddOp, kda::SubOp>(value.getDefiningOp())) {
    const Interval x = of(value);
    return x.bounded() ? std::optional(InSubchunk{x, x - x}) : std::nullopt;
  }
  auto a = inner(value.getDefiningOp()->getOperand(0)), b = inner(value.getDefiningOp()->getOperand(1));
  if (!a || !b) return std::nullopt;
  if (value.getDefiningOp<kda::AddOp>()) return InSubchunk{a->first + b->first, a->later + b->later};
  return InSubchunk{a->first - b->first, a->later - b->later};
}

/// boundary(y) + offset
struct Boundary {
  kda::BoundaryOp op;
  Interval offset;
};

/// b as boundary(y) plus what a constant and rint add; `sign`: -1 for its negative.
std::optional<Boundary> boundary_in(Value b, int sign, IntervalOf of) {
  b = behind(b);
  if (auto add = b.getDefiningOp<kda::AddOp>(); add && kda::constant_scalar(add.getB())) {
    auto inner = boundary_in(add.getA(), sign, of);
    if (inner) inner->offset = inner->offset + of(add.getB());
    return inner;
  }
  if (auto sub = b.getDefiningOp<kda::SubOp>(); sub && kda::constant_scalar(sub.getB())) {
    auto inner = boundary_in(sub.getA(), sign, of);
    if (inner) inner->offset = inner->offset - of(sub.getB());
    return inner;
  }
  if (auto sub = b.getDefiningOp<kda::SubOp>(); sub && kda::constant_scalar(sub.getA())) {
    auto inner = boundary_in(sub.getB(), -sign, of);
    if (inner) inner->offset = of(sub.getA()) - inner->offset;
    return inner;
  }
  if (auto neg = b.getDefiningOp<kda::NegOp>()) {
    auto inner = boundary_in(neg.getX(), -sign, of);
    if (inner) inner->offset = -inner->offset;
    return inner;
  }
  if (sign < 0) return std::nullopt;
  Interval offset = Interval::point(0);
  if (auto rint = b.getDefiningOp<kda::RintOp>()) {
    offset = {-0.5, 0.5};
    b = behind(rint.getX());
  }
  auto boundary = b.getDefiningOp<kda::BoundaryOp>();
  return boundary ? std::optional(Boundary{boundary, offset}) : std::nullopt;
}

/// y - b, where b is y's value at the boundary of its sub-chunk, about.
Interval from_boundary(Value y, Value b, int sign, const Assumptions& assumptions, IntervalOf of) {
  auto boundary = boundary_in(b, sign, of);
  if (!boundary || behind(boundary->op.getX()) != behind(y)) return {};
  const int64_t chunk = assumptions.chunk.value_or(kda::kernel_of(boundary->op.getOperation()).chunk());
  const Interval difference = range_in_subchunk(y, std::min(chunk, int64_t(boundary->op.getEvery())), of);
  return sign > 0 ? difference - boundary->offset : difference + boundary->offset;
}

bool is_square_of(Value value, Value x) {
  value = behind(value);
  if (auto mul = value.getDefiningOp<kda::MulOp>()) return behind(mul.getA()) == x && behind(mul.getB()) == x;
  if (auto pow = value.getDefiningOp<kda::PowOp>()) {
    auto exponent = kda::constant_scalar(pow.getB());
    return exponent && exponent->is(2.0) && behind(pow.getA()) == x;
  }
  return false;
}

/// c if value = c*sum(x^2) + e with constants c > 0 and e >= 0 (in any arrangement); 0 otherwise. max(.., e) is at
/// least its first operand, which is all that counts.
double weight_of_square_sum(Value value, Value x, IntervalOf of, int depth = search_depth) {
  if (depth == 0) return 0;
  value = behind(value);
  auto weight = [&](Value inner) { return weight_of_square_sum(inner, x, of, depth - 1); };
  auto at_least_zero = [&](Value rest) { return of(rest).lo >= 0; };
  auto positive_constant = [&](Value factor) {
    return kda::constant_scalar(factor) && of(factor).lo > 0 ? of(factor).lo : 0.0;
  };
  if (auto sum = value.getDefiningOp<kda::SumOp>()) return is_square_of(sum.getX(), x) ? 1.0 : 0.0;
  if (auto add = value.getDefiningOp<kda::AddOp>()) {
    double left = at_least_zero(add.getB()) ? weight(add.getA()) : 0.0;
    return left > 0 ? left : at_least_zero(add.getA()) ? weight(add.getB()) : 0.0;
  }
  if (auto max = value.getDefiningOp<kda::MaxOp>()) return std::max(weight(max.getA()), weight(max.getB()));
  if (auto mul = value.getDefiningOp<kda::MulOp>()) {
    if (double c = positive_constant(mul.getB())) return c * weight(mul.getA());
    if (double c = positive_constant(mul.getA())) return c * weight(mul.getB());
  }
  if (auto div = value.getDefiningOp<kda::DivOp>())
    if (double c = positive_constant(div.getB())) return weight(div.getA()) / c;
  return 0;
}

/// c if value >= sqrt(c*sum x^2); 0 otherwise.
double weight_of_norm(Value value, Value x, IntervalOf of, int depth = search_depth) {
  if (depth == 0) return 0;
  value = behind(value);
  auto weight = [&](Value inner) { return weight_of_norm(inner, x, of, depth - 1); };
  if (auto sqrt = value.getDefiningOp<kda::SqrtOp>()) return weight_of_square_sum(sqrt.getX(), x, of);
  if (auto max = value.getDefiningOp<kda::MaxOp>()) return std::max(weight(max.getA()), weight(max.getB()));
  if (auto add = value.getDefiningOp<kda::AddOp>()) {
    double left = of(add.getB()).lo >= 0 ? weight(add.getA()) : 0.0;
    return left > 0 ? left : of(add.getA()).lo >= 0 ? weight(add.getB()) : 0.0;
  }
  return 0;
}

Interval within(double weight) {
  if (!(weight > 0)) return {};
  double bound = 1 / std::sqrt(weight);
  return {-bound, bound};
}

Interval of_normalised(Value x, Value inverse, IntervalOf of) {
  inverse = behind(inverse);
  if (auto rsqrt = inverse.getDefiningOp<kda::RsqrtOp>())
    return within(weight_of_square_sum(rsqrt.getX(), behind(x), of));
  if (auto rcp = inverse.getDefiningOp<kda::RcpOp>()) return within(weight_of_norm(rcp.getX(), behind(x), of));
  return {};
}

}  // namespace

Interval range_in_subchunk(Value y, int64_t rows, IntervalOf of) {
  auto inside = in_subchunk(y, double(rows), of);
  return inside ? hull(inside->first, inside->later) : Interval();
}

Interval bounded_form(Operation* op, const Assumptions& assumptions, IntervalOf of) {
  if (auto sub = llvm::dyn_cast<kda::SubOp>(op))
    return intersect(of_difference(sub, assumptions, of), from_boundary(sub.getA(), sub.getB(), 1, assumptions, of));
  if (auto add = llvm::dyn_cast<kda::AddOp>(op))
    return intersect(from_boundary(add.getA(), add.getB(), -1, assumptions, of),
                     from_boundary(add.getB(), add.getA(), -1, assumptions, of));
  if (auto mul = llvm::dyn_cast<kda::MulOp>(op))
    return intersect(of_normalised(mul.getA(), mul.getB(), of), of_normalised(mul.getB(), mul.getA(), of));
  if (auto div = llvm::dyn_cast<kda::DivOp>(op)) {
    Value y = behind(div.getA());
    auto sum = behind(div.getB()).getDefiningOp<kda::SumOp>();
    if (sum && behind(sum.getX()) == y && of(y).lo >= 0) return {0, 1};
    return within(weight_of_norm(div.getB(), y, of));
  }
  return {};
}

}  // namespace kdagen
