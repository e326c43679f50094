// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/identities.h"

#include <cmath>

#include "codegen/rewrite/values.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

bool is_constant(Value value, double number) {
  auto scalar = constant_scalar(value);
  return scalar && scalar->is(number);
}

Value negated(Value value) {
  auto op = value.getDefiningOp<NegOp>();
  return op ? op.getX() : Value();
}

Value simpler_add(Builder& build, Value a, Value b) {
  if (is_constant(a, 0.0)) return b;
  if (is_constant(b, 0.0)) return a;
  if (Value y = negated(b)) return build.sub(a, y);
  if (Value x = negated(a)) return build.sub(b, x);
  return {};
}

Value simpler_sub(Builder& build, Value a, Value b) {
  if (is_constant(b, 0.0)) return a;
  if (is_constant(a, 0.0)) return build.neg(b);
  if (Value y = negated(b)) return build.add(a, y);
  return {};
}

Value simpler_mul(Builder& build, Value a, Value b) {
  auto first = constant_scalar(a), second = constant_scalar(b);
  if (first && second) return build.constant(*first * *second);
  if (first) return build.mul(b, a);
  if (second && second->is(1.0)) return a;
  if (second && second->is(-1.0)) return build.neg(a);
  if (negated(a) && negated(b)) return build.mul(negated(a), negated(b));
  return {};
}

Value simpler_div(Builder& build, Value a, Value b) {
  auto divisor = coefficient_scalar(b);
  if (!divisor) return {};
  int exponent;
  bool exact = std::abs(std::frexp(divisor->coefficient, &exponent)) == 0.5;
  return exact || !divisor->is_number() ? build.mul(a, build.constant(divisor->inverse())) : Value();
}

Value simpler_pow(Builder& build, Value a, Value b) {
  auto exponent = constant_scalar(b);
  if (!exponent || !exponent->is_number()) return {};
  double power = exponent->coefficient;
  if (power == 1.0) return a;
  if (power == 2.0) return build.mul(a, a);
  if (power == 3.0) return build.mul(build.mul(a, a), a);
  if (power != 4.0) return {};
  Value square = build.mul(a, a);
  return build.mul(square, square);
}

Value simpler_neg(Builder& build, Value x) {
  if (Value inner = negated(x)) return inner;
  if (auto scalar = constant_scalar(x)) return build.constant(-*scalar);
  if (auto op = x.getDefiningOp<SubOp>(); op && x.hasOneUse()) return build.sub(op.getB(), op.getA());
  return {};
}

Value simpler_broadcast(BroadcastOp op) {
  if (same_axes(op.getX(), op.getResult())) return op.getX();
  return without_broadcast(op.getX()) == op.getX() ? Value() : without_broadcast(op.getX());
}

Value simpler(Builder& build, Operation* op) {
  if (auto add = llvm::dyn_cast<AddOp>(op)) return simpler_add(build, add.getA(), add.getB());
  if (auto sub = llvm::dyn_cast<SubOp>(op)) return simpler_sub(build, sub.getA(), sub.getB());
  if (auto mul = llvm::dyn_cast<MulOp>(op)) return simpler_mul(build, mul.getA(), mul.getB());
  if (auto div = llvm::dyn_cast<DivOp>(op)) return simpler_div(build, div.getA(), div.getB());
  if (auto pow = llvm::dyn_cast<PowOp>(op)) return simpler_pow(build, pow.getA(), pow.getB());
  if (auto neg = llvm::dyn_cast<NegOp>(op)) return simpler_neg(build, neg.getX());
  if (auto broadcast = llvm::dyn_cast<BroadcastOp>(op)) return simpler_broadcast(broadcast);
  if (auto select = llvm::dyn_cast<SelectOp>(op)) return select.getA() == select.getB() ? select.getA() : Value();
  if (llvm::isa<Exp2Op, ExpOp>(op)) return is_constant(op->getOperand(0), 0.0) ? build.constant(1.0) : Value();
  return {};
}

struct Identities : RewritePattern {
  RewriteReport& report;
  Identities(MLIRContext* context, RewriteReport& report)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), report(report) {}

  LogicalResult matchAndRewrite(Operation* op, PatternRewriter& rewriter) const override {
    if (op->getNumResults() != 1 || op->getNumRegions() != 0) return failure();
    Builder build(rewriter, unnamed(op->getLoc()));
    Value value = simpler(build, op);
    if (!value) return failure();
    report.fired("identities", op->getLoc());
    replace(rewriter, op, value);
    return success();
  }
};

}  // namespace

void identities(KernelOp kernel, RewriteReport& report) {
  RewritePatternSet patterns(kernel.getContext());
  patterns.add<Identities>(kernel.getContext(), report);
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  config.maxIterations = GreedyRewriteConfig::kNoLimit;
  (void)applyPatternsAndFoldGreedily(kernel, std::move(patterns), config);
}

}  // namespace kdagen::kda
