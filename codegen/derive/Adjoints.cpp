// SPDX-License-Identifier: Apache-2.0
// Every adjoint rule: the cotangent dy of a result gives the contributions to the operands' cotangents. A null value
// where an operand has none. The caller sums a contribution over the axes that the operand lacks, so broadcasting needs
// no rule of its own in the pointwise ops.
#include "codegen/ir/Builder.h"

using namespace mlir;

namespace kdagen::kda {
namespace {
using Contributions = SmallVector<Value>;

Value scaled(Builder& build, double factor, Value x) { return build.mul(x, Scalar::number(factor)); }

/// dy where a < b, dy/2 where a = b, 0 elsewhere: a tie is shared half and half.
Value where_less(Builder& build, Value a, Value b, Value dy) {
  Value tie = build.select(build.compare<EqualOp>({a, b}), scaled(build, 0.5, dy), build.constant(0.0));
  return build.select(build.compare<LessOp>({a, b}), dy, tie);
}
}  // namespace

// ---- one operand ---------------------------------------------------------------------------------------------------

// y = -x                      dx = -dy
Contributions NegOp::adjoint(Builder& build, Value dy) { return {build.neg(dy)}; }

// y = e^x                     dx = dy*y
Contributions ExpOp::adjoint(Builder& build, Value dy) { return {build.mul(dy, getResult())}; }

// y = 2^x                     dx = dy*y*ln2           (ln2 stays a symbol: it cancels against log2e)
Contributions Exp2Op::adjoint(Builder& build, Value dy) {
  return {build.mul(build.mul(dy, getResult()), Scalar::ln2())};
}

// y = log(x)                  dx = dy/x
Contributions LogOp::adjoint(Builder& build, Value dy) { return {build.div(dy, getX())}; }

// y = log(1+x)                dx = dy/(1+x)
Contributions Log1pOp::adjoint(Builder& build, Value dy) {
  return {build.div(dy, build.add(build.constant(1.0), getX()))};
}

// y = sqrt(x)                 dx = (dy/2)/y
Contributions SqrtOp::adjoint(Builder& build, Value dy) { return {build.div(scaled(build, 0.5, dy), getResult())}; }

// y = x^(-1/2)                dx = -(dy/2)*y^3
Contributions RsqrtOp::adjoint(Builder& build, Value dy) {
  Value y = getResult();
  return {build.mul(scaled(build, -0.5, dy), build.mul(build.mul(y, y), y))};
}

// y = 1/x                     dx = -dy*y^2
Contributions RcpOp::adjoint(Builder& build, Value dy) {
  return {build.neg(build.mul(dy, build.mul(getResult(), getResult())))};
}

// y = sigmoid(x)              dx = dy*(y*(1-y))       (rewrite stable-sigmoid' evaluates y*(1-y) without cancellation)
Contributions SigmoidOp::adjoint(Builder& build, Value dy) {
  Value y = getResult();
  return {build.mul(dy, build.mul(y, build.sub(build.constant(1.0), y)))};
}

// y = sigmoid'(x)             dx = dy*y*(1-2*sigmoid(x)) = -dy*y*tanh(x/2)
Contributions SigmoidGradOp::adjoint(Builder& build, Value dy) {
  Value tanh = build.pointwise<TanhOp>({scaled(build, 0.5, getX())});
  return {build.neg(build.mul(build.mul(dy, getResult()), tanh))};
}

// y = log(1+e^x)              dx = dy*sigmoid(x)
Contributions SoftplusOp::adjoint(Builder& build, Value dy) {
  return {build.mul(dy, build.pointwise<SigmoidOp>({getX()}))};
}

// y = tanh(x)                 dx = dy*(1-y^2) = dy*4*sigmoid'(2x)     (the second form does not cancel)
Contributions TanhOp::adjoint(Builder& build, Value dy) {
  Value slope = build.pointwise<SigmoidGradOp>({scaled(build, 2.0, getX())});
  return {build.mul(dy, scaled(build, 4.0, slope))};
}

// y = max(x, 0)               dx = dy where x > 0, dy/2 where x = 0, else 0     (as kda.max)
Contributions ReluOp::adjoint(Builder& build, Value dy) { return {where_less(build, build.constant(0.0), getX(), dy)}; }

// y = |x|                     dx = dy*sign(x), 0 at x = 0
Contributions AbsOp::adjoint(Builder& build, Value dy) {
  Value zero = build.constant(0.0);
  Value negative = build.select(build.compare<LessOp>({getX(), zero}), build.neg(dy), zero);
  return {build.select(build.compare<LessOp>({zero, getX()}), dy, negative)};
}

// y = min(max(x, lower), upper)     dx = dy where lower <= x <= upper, else 0
Contributions ClampOp::adjoint(Builder& build, Value dy) {
  Value zero = build.constant(0.0);
  Value below =
      build.select(build.compare<LessEqualOp>({getX(), build.constant(getUpper().convertToDouble())}), dy, zero);
  return {
      build.select(build.compare<LessEqualOp>({build.constant(getLower().convertToDouble()), getX()}), below, zero)};
}

// y = round(x)                dx = dy                 (straight through)
Contributions RoundOp::adjoint(Builder& build, Value dy) { return {dy}; }

// y = detach(x)               nothing
Contributions DetachOp::adjoint(Builder& build, Value dy) { return {Value()}; }

// y = isnan(x)                nothing: a truth value
Contributions IsNanOp::adjoint(Builder& build, Value dy) { return {Value()}; }

// ---- two and three operands ----------------------------------------------------------------------------------------

// y = a + b                   da = dy                 db = dy
Contributions AddOp::adjoint(Builder& build, Value dy) { return {dy, dy}; }

// y = a - b                   da = dy                 db = -dy
Contributions SubOp::adjoint(Builder& build, Value dy) { return {dy, build.neg(dy)}; }

// y = a*b                     da = dy*b               db = dy*a
Contributions MulOp::adjoint(Builder& build, Value dy) { return {build.mul(dy, getB()), build.mul(dy, getA())}; }

// y = a/b                     da = dy/b               db = -(dy/b)*y
Contributions DivOp::adjoint(Builder& build, Value dy) {
  Value da = build.div(dy, getB());
  return {da, build.neg(build.mul(da, getResult()))};
}

// y = a^b                     da = dy*b*a^(b-1)       db = dy*y*log(a)
Contributions PowOp::adjoint(Builder& build, Value dy) {
  Value a = getA(), b = getB();
  Value db = build.mul(build.mul(dy, getResult()), build.pointwise<LogOp>({a}));
  auto exponent = constant_scalar(b);
  if (exponent && exponent->is(1.0)) return {dy, db};
  if (exponent && exponent->is(2.0)) return {build.mul(dy, scaled(build, 2.0, a)), db};
  Value lower = exponent ? build.constant(exponent->value() - 1.0) : build.sub(b, build.constant(1.0));
  return {build.mul(build.mul(dy, b), build.pointwise<PowOp>({a, lower})), db};
}

// y = min(a, b)               da = dy where a < b, dy/2 where a = b, else 0; db likewise
Contributions MinOp::adjoint(Builder& build, Value dy) {
  return {where_less(build, getA(), getB(), dy), where_less(build, getB(), getA(), dy)};
}

// y = max(a, b)               da = dy where b < a, dy/2 where a = b, else 0; db likewise
Contributions MaxOp::adjoint(Builder& build, Value dy) {
  return {where_less(build, getB(), getA(), dy), where_less(build, getA(), getB(), dy)};
}

// y = a < b, a <= b, a == b   nothing: truth values
Contributions LessOp::adjoint(Builder& build, Value dy) { return {Value(), Value()}; }
Contributions LessEqualOp::adjoint(Builder& build, Value dy) { return {Value(), Value()}; }
Contributions EqualOp::adjoint(Builder& build, Value dy) { return {Value(), Value()}; }

// y = a*b + c                 da = dy*b               db = dy*a               dc = dy
Contributions FmaOp::adjoint(Builder& build, Value dy) { return {build.mul(dy, getB()), build.mul(dy, getA()), dy}; }

// y = condition ? a : b       da = condition ? dy : 0     db = condition ? 0 : dy     (a NaN in the other branch stays
// there)
Contributions SelectOp::adjoint(Builder& build, Value dy) {
  Value zero = build.constant(0.0);
  return {Value(), build.select(getCondition(), dy, zero), build.select(getCondition(), zero, dy)};
}

// ---- over axes -----------------------------------------------------------------------------------------------------

// y = sum_a x                 dx[a] = dy
Contributions SumOp::adjoint(Builder& build, Value dy) { return {build.broadcast_like(dy, getX())}; }

// y[a] = x                    dx = sum_a dy
Contributions BroadcastOp::adjoint(Builder& build, Value dy) { return {build.sum_to(dy, getX())}; }

// y = max_a x                 dx[a] = dy/count where x[a] = y, else 0; count = the number of such a
Contributions MaxReduceOp::adjoint(Builder& build, Value dy) {
  Value attained = build.compare<EqualOp>({getX(), getResult()});
  Value count = build.sum_to(build.select(attained, build.constant(1.0), build.constant(0.0)), getResult());
  return {build.select(attained, build.div(dy, count), build.constant(0.0))};
}

// y[r] = sum_{s<=r} x[s]      dx[s] = sum_{r>=s} dy[r]: the scan from the other end (s<r gives r>s)
Contributions ScanOp::adjoint(Builder& build, Value dy) {
  return {build.scan(dy, getOver(), getExclusive(), !getReverse())};
}

// y = x[last row]             dx = dy in the last row, else 0
Contributions LastOp::adjoint(Builder& build, Value dy) { return {build.at_last(dy, getOver())}; }

// y = x in the last row, else 0     dx = dy[last row]
Contributions AtLastOp::adjoint(Builder& build, Value dy) { return {build.last(dy, getOver())}; }

// y[r] = x[r-n] or fill       dx[r] = dy[r+n], 0 where that row is absent
Contributions ShiftOp::adjoint(Builder& build, Value dy) { return {build.shift(dy, getOver(), -getAmount(), 0.0)}; }

}  // namespace kdagen::kda
