// SPDX-License-Identifier: Apache-2.0
#include "codegen/analysis/transfer.h"

#include "codegen/analysis/anchors.h"
#include "codegen/analysis/bounded_forms.h"
#include "codegen/ir/Scalar.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace kdagen {
namespace {
using kda::AxisAttr;
using kda::AxisRole;

constexpr double infinity = Interval::infinity;
constexpr double largest_fp16 = 65504;

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus(double x) { return x > 40 ? x : std::log1p(std::exp(x)); }
/// Defined on positive numbers only: no bound where the argument may be outside.
double logarithm(double x) { return x > 0 ? std::log(x) : -infinity; }

Interval of_input(kda::InputOp input) {
  Interval range;
  if (input.getStorage().isF16()) range = {-largest_fp16, largest_fp16};
  if (input.getStorage().isInteger(8)) range = {-128, 127};
  Interval declared;
  if (auto lower = input.getLower()) declared.lo = lower->convertToDouble();
  if (auto upper = input.getUpper()) declared.hi = upper->convertToDouble();
  range = intersect(range, declared);
  if (input.getOptional()) {
    double absent = input.getAbsent() ? input.getAbsent()->convertToDouble() : 0.0;
    range = hull(range, Interval::point(absent));
  }
  return range;
}

Interval of_constant(kda::ConstantOp op, const Assumptions& assumptions) {
  kda::Scalar scalar = kda::Scalar::of(op);
  for (auto& [name, symbol] : scalar.symbols)
    if (auto it = assumptions.symbols.find(name); it != assumptions.symbols.end()) symbol.value = it->second;
  return Interval::point(scalar.value());
}

Interval power(Interval a, Interval b) {
  if (b == Interval::point(2)) return square(a);
  if (b == Interval::point(1)) return a;
  if (!(a.lo >= 0)) return {};
  if (b.lo == b.hi) {  // x^c grows for c >= 0, falls for c < 0
    Interval ends = increasing(a, [&](double x) { return std::pow(x, b.lo); });
    return {std::min(ends.lo, ends.hi), std::max(ends.lo, ends.hi)};
  }
  return {0, a.lo > 0 && a.bounded() && b.bounded() ? std::max(std::max(std::pow(a.lo, b.lo), std::pow(a.lo, b.hi)),
                                                               std::max(std::pow(a.hi, b.lo), std::pow(a.hi, b.hi)))
                                                    : infinity};
}

/// Relative error of one rounding, and the smallest absolute one.
Interval rounded(Interval a, Type storage) {
  double u = storage.isBF16() ? 0x1p-8 : storage.isF16() ? 0x1p-11 : 0x1p-24;
  return {a.lo - std::abs(a.lo) * u, a.hi + std::abs(a.hi) * u};
}

Interval of_sum(kda::SumOp sum, Interval x, const Assumptions& assumptions) {
  for (Attribute name : sum.getOver()) {
    AxisAttr axis = kda::kernel_of(sum.getOperation()).axis(llvm::cast<StringAttr>(name).getValue());
    double extent = double(axis.getExtent());
    switch (axis.getRole()) {
      case AxisRole::Rows:
        x = sum_of(x, 1, double(assumptions.chunk.value_or(axis.getExtent())));
        break;
      case AxisRole::Feature:
        x = sum_of(x, extent, extent);
        break;
      default:
        x = sum_of(x, 0, infinity);
        break;  // any number of tiles or heads
    }
  }
  return x;
}

Interval of_scan(kda::ScanOp scan, Interval x, const Assumptions& assumptions) {
  double rows = double(assumptions.chunk.value_or(kda::kernel_of(scan.getOperation()).chunk()));
  return scan.getExclusive() ? sum_of(x, 0, rows - 1) : sum_of(x, 1, rows);
}

/// Of a sum over the rows so far: those of the sub-chunks before the last.
Interval of_boundary(kda::BoundaryOp boundary, const Assumptions& assumptions, IntervalOf of) {
  Interval x = hull(of(boundary.getX()), Interval::point(0));
  auto scan = boundary.getX().getDefiningOp<kda::ScanOp>();
  if (!scan || scan.getReverse()) return x;
  const int64_t chunk = assumptions.chunk.value_or(kda::kernel_of(scan.getOperation()).chunk()),
                every = int64_t(boundary.getEvery()), before = (chunk - 1) / every * every;
  return intersect(x, sum_of(of(scan.getX()), 0, double(before)));
}

Interval of_index(kda::IndexOp index, const Assumptions& assumptions) {
  AxisAttr axis = kda::kernel_of(index.getOperation()).axis(index.getOver());
  double extent = double(axis.getExtent());
  if (axis.getRole() == AxisRole::Rows) extent = double(assumptions.chunk.value_or(axis.getExtent()));
  return {0, extent - 1};
}

Interval of_unary(Operation* op, Interval x) {
  using namespace kda;
  auto decreasing = [&](auto f) { return Interval{f(x.hi), f(x.lo)}; };
  return llvm::TypeSwitch<Operation*, Interval>(op)
      .Case<NegOp>([&](auto) { return -x; })
      .Case<ExpOp>([&](auto) { return increasing(x, [](double v) { return std::exp(v); }); })
      .Case<Exp2Op>([&](auto) { return increasing(x, [](double v) { return std::exp2(v); }); })
      .Case<LogOp>([&](auto) { return increasing(x, logarithm); })
      .Case<Log1pOp>([&](auto) { return increasing(x, [](double v) { return logarithm(1 + v); }); })
      .Case<SqrtOp>([&](auto) { return increasing(x, [](double v) { return std::sqrt(std::max(v, 0.0)); }); })
      .Case<RsqrtOp>([&](auto) { return decreasing([](double v) { return v > 0 ? 1 / std::sqrt(v) : infinity; }); })
      .Case<RcpOp>([&](auto) { return reciprocal(x); })
      .Case<SigmoidOp>([&](auto) { return increasing(x, sigmoid); })
      .Case<SigmoidGradOp>([&](auto) { return Interval{0, 0.25}; })
      .Case<SoftplusOp>([&](auto) { return increasing(x, softplus); })
      .Case<TanhOp>([&](auto) { return increasing(x, [](double v) { return std::tanh(v); }); })
      .Case<ReluOp>([&](auto) { return increasing(x, [](double v) { return std::max(v, 0.0); }); })
      .Case<AbsOp>(
          [&](auto) { return Interval{x.contains(0) ? 0 : std::min(std::abs(x.lo), std::abs(x.hi)), x.magnitude()}; })
      .Case<ClampOp>([&](ClampOp clamp) {
        double lower = clamp.getLower().convertToDouble(), upper = clamp.getUpper().convertToDouble();
        return increasing(x, [&](double v) { return std::min(std::max(v, lower), upper); });
      })
      .Case<RintOp>([&](auto) { return increasing(x, [](double v) { return std::nearbyint(v); }); })
      .Case<RoundOp>([&](RoundOp round) { return rounded(x, round.getStorage()); })
      .Case<DetachOp, BroadcastOp, LastOp, MaxReduceOp, ToFixedOp, FromFixedOp>([&](auto) { return x; })
      .Case<AtLastOp>([&](auto) { return hull(x, Interval::point(0)); })
      .Case<ShiftOp>([&](ShiftOp shift) { return hull(x, Interval::point(shift.getFill().convertToDouble())); })
      .Case<IsNanOp>([](auto) { return Interval{0, 1}; })
      .Default([](Operation*) { return Interval::everything(); });
}

Interval of_binary(Operation* op, Interval a, Interval b) {
  using namespace kda;
  return llvm::TypeSwitch<Operation*, Interval>(op)
      .Case<AddOp>([&](auto) { return a + b; })
      .Case<SubOp>([&](auto) { return a - b; })
      .Case<MulOp>([&](auto) { return op->getOperand(0) == op->getOperand(1) ? square(a) : a * b; })
      .Case<DivOp>([&](auto) { return a * reciprocal(b); })
      .Case<PowOp>([&](auto) { return power(a, b); })
      .Case<MinOp>([&](auto) { return Interval{std::min(a.lo, b.lo), std::min(a.hi, b.hi)}; })
      .Case<MaxOp>([&](auto) { return Interval{std::max(a.lo, b.lo), std::max(a.hi, b.hi)}; })
      .Case<LessOp, LessEqualOp, EqualOp>([](auto) { return Interval{0, 1}; })
      .Default([](Operation*) { return Interval::everything(); });
}

Interval from_operands(Operation* op, const Assumptions& assumptions, IntervalOf of) {
  if (auto input = llvm::dyn_cast<kda::InputOp>(op)) return of_input(input);
  if (auto constant = llvm::dyn_cast<kda::ConstantOp>(op)) return of_constant(constant, assumptions);
  if (auto index = llvm::dyn_cast<kda::IndexOp>(op)) return of_index(index, assumptions);
  if (auto sum = llvm::dyn_cast<kda::SumOp>(op)) return of_sum(sum, of(sum.getX()), assumptions);
  if (auto scan = llvm::dyn_cast<kda::ScanOp>(op)) return of_scan(scan, of(scan.getX()), assumptions);
  if (auto boundary = llvm::dyn_cast<kda::BoundaryOp>(op)) return of_boundary(boundary, assumptions, of);
  if (auto select = llvm::dyn_cast<kda::SelectOp>(op)) return hull(of(select.getA()), of(select.getB()));
  if (auto fma = llvm::dyn_cast<kda::FmaOp>(op)) return of(fma.getA()) * of(fma.getB()) + of(fma.getC());
  if (auto norm = llvm::dyn_cast<kda::InverseNormOp>(op)) {
    double eps = of(norm.getEps()).lo;
    return {0, eps > 0 ? 1 / std::sqrt(eps) : infinity};
  }
  if (op->getNumOperands() == 1) return of_unary(op, of(op->getOperand(0)));
  if (op->getNumOperands() == 2) return of_binary(op, of(op->getOperand(0)), of(op->getOperand(1)));
  return {};
}

}  // namespace

Interval transfer(Operation* op, const Assumptions& assumptions, IntervalOf of) {
  Interval result = from_operands(op, assumptions, of);
  if (std::isnan(result.lo)) result.lo = -infinity;
  if (std::isnan(result.hi)) result.hi = infinity;
  if (auto proven = op->getAttrOfType<DenseF64ArrayAttr>(proven_range_attribute); proven && proven.size() == 2)
    result = intersect(result, {proven[0], proven[1]});
  result = intersect(result, bounded_form(op, assumptions, of));
  // Under other bounds or another chunk an anchored exponent has another anchor: the middle of its range is near 0
  // again.
  if (assumptions.any() && op->hasAttr(anchored_attribute) && result.bounded())
    result = result + Interval::point(std::nearbyint(-(result.lo + result.hi) / 2));
  return result;
}

}  // namespace kdagen
