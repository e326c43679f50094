// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/expressions.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "codegen/ir/FixedPoint.h"
#include "codegen/schedule/normal_arguments.h"
#include "kdagen/error.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace kdagen::kda;
using kdagen::schedule::normal_attribute;

namespace kdagen::emit {

std::string float_literal(double value) {
  float x = float(value);
  if (std::isinf(x)) return x > 0 ? "__uint_as_float(0x7f800000u)" : "-__uint_as_float(0x7f800000u)";
  if (std::abs(x) == std::numeric_limits<float>::max()) return x > 0 ? "largest_float" : "-largest_float";
  char digits[64];
  auto end = std::to_chars(digits, digits + sizeof digits, x).ptr;
  std::string text(digits, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

namespace {
using E = Expression;

E call(const std::string& function, std::initializer_list<E> operands) {
  std::string text = function + "(";
  for (const E& operand : operands) text += (text.back() == '(' ? "" : ", ") + operand.text;
  return {text + ")", E::Primary};
}

E binary(const E& a, const char* sign, const E& b, E::Binding binding) {
  // The right operand binds tighter: a - (b + c), a * (b * c) keep their parentheses (float sums do not regroup).
  return {a.in(binding) + sign + b.in(E::Binding(binding + 1)), binding};
}

const char* storage_name(mlir::Type storage) { return storage.isBF16() ? "bf16" : storage.isF16() ? "fp16" : "float"; }

E choice(const std::string& condition, const E& a, const E& b) {
  return {condition + " ? " + a.in(E::Comparison) + " : " + b.in(E::Comparison), E::Choice};
}

/// The bare instruction where argument and result are proven to be normal.
std::string approximation(const std::string& function, mlir::Operation* op) {
  return op->hasAttr(normal_attribute) ? function + "_normal" : function;
}

E unary(mlir::Operation* op, const E& x) {
  return llvm::TypeSwitch<mlir::Operation*, E>(op)
      .Case<NegOp>([&](auto) { return E{"-" + x.in(E::Unary), E::Unary}; })
      .Case<ExpOp>([&](auto) { return call("expf", {x}); })
      .Case<Exp2Op>([&](auto) { return call(approximation("approx_exp2", op), {x}); })
      .Case<LogOp>([&](auto) { return call("logf", {x}); })
      .Case<Log1pOp>([&](auto) { return call("log1pf", {x}); })
      .Case<SqrtOp>([&](auto) { return call("sqrtf", {x}); })
      .Case<RsqrtOp>([&](auto) { return call(approximation("approx_rsqrt", op), {x}); })
      .Case<RcpOp>([&](auto) { return call(approximation("approx_rcp", op), {x}); })
      .Case<TanhOp>([&](auto) { return call("tanhf", {x}); })
      .Case<AbsOp>([&](auto) { return call("fabsf", {x}); })
      .Case<ReluOp>([&](auto) { return choice(x.in(E::Sum) + " < 0.0f", E{"0.0f"}, x); })
      .Case<IsNanOp>([&](auto) { return E{x.in(E::Sum) + " != " + x.in(E::Sum), E::Comparison}; })
      .Case<ToFixedOp>([&](ToFixedOp to) {
        unsigned bits = fixed_type(to.getResult()).getFractionBits();
        std::string limit =
            to->hasAttr(never_saturates_attribute) ? "" : fmt::format(", {}", static_cast<int64_t>(to.getLimit()));
        return E{fmt::format("to_fixed<{}>({}{})", bits, x.text, limit), E::Primary};
      })
      .Case<FromFixedOp>([&](auto) { return call("to_float", {x}); })
      .Case<RintOp>([&](RintOp rint) { return call(fixed_type(rint.getResult()) ? "nearest_whole" : "rintf", {x}); })
      .Case<BroadcastOp, DetachOp>([&](auto) { return x; })
      .Case<RoundOp>([&](RoundOp round) {
        return E{fmt::format("round_to<{}>({})", storage_name(round.getStorage()), x.text), E::Primary};
      })
      .Case<ClampOp>([&](ClampOp clamp) {
        std::string low = float_literal(clamp.getLower().convertToDouble()),
                    high = float_literal(clamp.getUpper().convertToDouble());
        E inner = choice(x.in(E::Sum) + " > " + high, E{high}, x);
        return choice(x.in(E::Sum) + " < " + low, E{low}, {"(" + inner.text + ")", E::Primary});
      })
      .Default([&](mlir::Operation* other) -> E {
        throw KdagenBug("emit: no text for " + other->getName().getStringRef().str());
      });
}
}  // namespace

Expression expression(mlir::Operation* op, const ElementContext& context) {
  auto at = [&](unsigned i) { return context.operand(op->getOperand(i)); };
  return llvm::TypeSwitch<mlir::Operation*, E>(op)
      .Case<AddOp>([&](auto) { return binary(at(0), " + ", at(1), E::Sum); })
      .Case<SubOp>([&](auto) { return binary(at(0), " - ", at(1), E::Sum); })
      .Case<MulOp>([&](auto) { return binary(at(0), " * ", at(1), E::Product); })
      .Case<DivOp>([&](auto) { return binary(at(0), " / ", at(1), E::Product); })
      .Case<PowOp>([&](auto) { return call("powf", {at(0), at(1)}); })
      .Case<MinOp>([&](auto) { return choice(at(1).in(E::Sum) + " < " + at(0).in(E::Sum), at(1), at(0)); })
      .Case<MaxOp>([&](auto) { return choice(at(0).in(E::Sum) + " < " + at(1).in(E::Sum), at(1), at(0)); })
      .Case<LessOp>([&](auto) { return binary(at(0), " < ", at(1), E::Comparison); })
      .Case<LessEqualOp>([&](auto) { return binary(at(0), " <= ", at(1), E::Comparison); })
      .Case<EqualOp>([&](auto) { return binary(at(0), " == ", at(1), E::Comparison); })
      .Case<FmaOp>([&](auto) { return call("fmaf", {at(0), at(1), at(2)}); })
      .Case<SelectOp>([&](auto) { return choice(at(0).in(E::Comparison), at(1), at(2)); })
      .Case<AtLastOp>(
          [&](auto) { return choice(fmt::format("{} == {} - 1", context.row, context.rows), at(0), E{"0.0f"}); })
      .Default([&](mlir::Operation* other) { return unary(other, at(0)); });
}

}  // namespace kdagen::emit
