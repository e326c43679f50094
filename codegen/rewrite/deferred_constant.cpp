// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/deferred_constant.h"

#include <cmath>

#include "codegen/rewrite/products.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

/// scalar * value, where value stands behind broadcasts that are to be put back.
struct Scaled {
  Scalar scalar;
  Value value;
  bool scaled() const { return !scalar.is(1.0); }
};

bool cancels(const Scalar& scalar, const Scalar& other) {
  return llvm::any_of(other.symbols, [&](const auto& entry) {
    auto mine = scalar.symbols.find(entry.first);
    return mine != scalar.symbols.end() && (mine->second.power > 0) != (entry.second.power > 0);
  });
}

/// Whether `value`, on its way from here through linear ops to the results, meets a constant that cancels a symbol.
bool cancels_at(Operation* user, Value value, const Scalar& scalar) {
  while (true) {
    if (user->getNumResults() != 1 || !llvm::isa<MulOp, NegOp, ScanOp, SumOp, BroadcastOp, AddOp, SubOp>(user))
      return false;
    Value other = llvm::isa<MulOp>(user) ? user->getOperand(user->getOperand(0) == value ? 1 : 0) : Value();
    if (other && !depends_on_cotangent(other) && cancels(scalar, product_of(other, through_all).coefficient))
      return true;
    value = user->getResult(0);
    if (!value.hasOneUse()) return false;
    user = *value.user_begin();
  }
}
bool cancels_later(Value value, const Scalar& scalar) {
  return value.hasOneUse() && cancels_at(*value.user_begin(), value, scalar);
}

/// Whether a constant may be taken off `value`: nobody else uses the scaled number, or all who do get rid of it.
bool may_split(Value value) {
  if (!depends_on_cotangent(value) || value.hasOneUse()) return depends_on_cotangent(value);
  auto op = value.getDefiningOp<MulOp>();
  auto scalar = op ? coefficient_scalar(op.getB()) : std::nullopt;
  return scalar && llvm::all_of(value.getUsers(), [&](Operation* user) {
           return llvm::isa<MulOp>(user) && cancels_at(user, value, *scalar);
         });
}

Scaled split(Value value) {
  if (!may_split(value)) return {Scalar(), value};
  if (auto op = value.getDefiningOp<NegOp>()) {
    Scaled inner = split(op.getX());
    return {-inner.scalar, inner.value};
  }
  if (auto op = value.getDefiningOp<MulOp>())
    if (auto scalar = coefficient_scalar(op.getB()); scalar && same_axes(op.getA(), value)) {
      Scaled inner = split(op.getA());
      return {inner.scalar * *scalar, inner.value};
    }
  return {Scalar(), value};
}

/// The same, looking through what fills up axes: only for summands, whose other side brings the same constant.
Scaled split_through(Value value) {
  if (!may_split(value)) return {Scalar(), value};
  if (llvm::isa<BroadcastOp, AtLastOp>(value.getDefiningOp()))
    return split_through(value.getDefiningOp()->getOperand(0));
  return split(value);
}

/// What `split_through` took the constant from, with the ops around it again.
Value without_constant(Builder& build, Value original, const Scaled& scaled) {
  if (!scaled.scaled()) return original;
  if (auto op = original.getDefiningOp<BroadcastOp>()) {
    Value inner = without_constant(build, op.getX(), scaled);
    return build.broadcast_like(inner, op);
  }
  if (auto op = original.getDefiningOp<AtLastOp>())
    return build.at_last(without_constant(build, op.getX(), scaled), op.getOver());
  return scaled.value;
}

Value times(Builder& build, Value value, const Scalar& scalar) {
  if (scalar.is(1.0)) return value;
  return scalar.is(-1.0) ? build.neg(value) : build.mul(value, scalar);
}

Scalar signless(Scalar scalar) {
  scalar.coefficient = std::abs(scalar.coefficient);
  return scalar;
}

struct Deferral {
  Builder& build;

  Value mul(MulOp op) {
    Value x = op.getA(), y = op.getB();
    if (!depends_on_cotangent(x)) std::swap(x, y);
    if (depends_on_cotangent(y)) return {};
    Scaled scaled = split(x);
    if (auto scalar = coefficient_scalar(y)) {
      if (!scaled.scaled()) return {};
      return times(build, scaled.value, scaled.scalar * *scalar);
    }
    if (Value value = parameter(scaled, x, y)) return value;
    if (!scaled.scaled() || !same_axes(scaled.value, op)) return {};
    return times(build, build.mul(scaled.value, y), scaled.scalar);
  }

  /// A constant inside a product of parameters that cancels against one of x.
  Value parameter(const Scaled& scaled, Value x, Value y) {
    if (section_of(y) != Section::Prologue || !scaled.scaled()) return {};
    Product product = product_of(y, through_all);
    if (!cancels(scaled.scalar, product.coefficient) || product.factors.empty()) return {};
    Scalar scalar = std::exchange(product.coefficient, Scalar()) * scaled.scalar;
    return times(build, build.mul(scaled.value, build_product(build, product, {})), scalar);
  }

  Value sum(Operation* op) {
    Value x = op->getOperand(0), y = op->getOperand(1);
    if (!depends_on_cotangent(x) || !depends_on_cotangent(y) || x == y) return {};
    Scaled a = split_through(x), b = split_through(y);
    Scalar common = common_factor({a.scalar, llvm::isa<SubOp>(op) ? -b.scalar : b.scalar});
    if (common.is(1.0)) return uneven(op, x, y, a, b);
    Scalar rest = common.inverse();
    Value first = times(build, without_constant(build, x, a), a.scalar * rest);
    Scalar second_scalar = (llvm::isa<SubOp>(op) ? -b.scalar : b.scalar) * rest;
    Value second = times(build, without_constant(build, y, b), signless(second_scalar));
    Value total = second_scalar.coefficient < 0 ? build.sub(first, second) : build.add(first, second);
    return times(build, total, common);
  }

  /// c*x + y with y smaller than x.
  Value uneven(Operation* op, Value x, Value y, const Scaled& a, const Scaled& b) {
    auto pull = [&](Value large, const Scaled& scaled, Value small) -> Scalar {
      Value column = without_broadcast(small);
      bool smaller = axes_within(column, large) && !same_axes(column, large);
      Scalar symbols = scaled.scalar;
      symbols.coefficient = 1.0;
      return smaller && !symbols.is_number() && cancels_later(op->getResult(0), symbols) ? symbols : Scalar();
    };
    Scalar scalar = pull(x, a, y);
    bool first = !scalar.is(1.0);
    if (!first) scalar = pull(y, b, x);
    if (scalar.is(1.0)) return {};
    auto divided = [&](Value value, const Scaled& scaled, bool has_it) {
      if (has_it) return times(build, without_constant(build, value, scaled), scaled.scalar * scalar.inverse());
      return build.mul(without_broadcast(value), scalar.inverse());
    };
    Value left = divided(x, a, first), right = divided(y, b, !first);
    return times(build, llvm::isa<SubOp>(op) ? build.sub(left, right) : build.add(left, right), scalar);
  }

  Value neg(NegOp op) {
    Scaled scaled = split(op.getX());
    return scaled.scaled() ? times(build, scaled.value, -scaled.scalar) : Value();
  }

  Value select(SelectOp op) {
    Scaled a = split(op.getA()), b = split(op.getB());
    auto zero = [](Value value) {
      auto scalar = constant_scalar(value);
      return scalar && scalar->is(0.0);
    };
    if (a.scaled() && (zero(op.getB()) || a.scalar == b.scalar))
      return times(build, build.select(op.getCondition(), a.value, b.value), a.scalar);
    if (b.scaled() && zero(op.getA())) return times(build, build.select(op.getCondition(), a.value, b.value), b.scalar);
    return {};
  }

  /// Linear ops of one operand that do not add axes.
  Value along(Operation* op) {
    if (!llvm::isa<SumOp, ScanOp, LastOp, ShiftOp, DivOp>(op)) return {};
    if (auto shift = llvm::dyn_cast<ShiftOp>(op); shift && !shift.getFill().isZero()) return {};
    Scaled scaled = split(op->getOperand(0));
    if (!scaled.scaled() || (llvm::isa<DivOp>(op) && !same_axes(scaled.value, op->getResult(0)))) return {};
    Operation* clone = build.raw().clone(*op);
    clone->setLoc(unnamed(op->getLoc()));
    clone->setOperand(0, scaled.value);
    return times(build, clone->getResult(0), scaled.scalar);
  }

  Value operator()(Operation* op) {
    if (auto product = llvm::dyn_cast<MulOp>(op)) return mul(product);
    if (llvm::isa<AddOp, SubOp>(op)) return sum(op);
    if (auto choice = llvm::dyn_cast<SelectOp>(op)) return select(choice);
    if (auto sign = llvm::dyn_cast<NegOp>(op)) return neg(sign);
    return along(op);
  }
};

/// The name of a scaled value that goes stays with the value: "dG" is what is summed, its constant comes later.
void keep_names(Operation* op) {
  for (Value operand : op->getOperands())
    if (Scaled scaled = split_through(operand); scaled.scaled()) hand_over_name(operand, scaled.value);
}

struct DeferredConstant : RewritePattern {
  RewriteReport& report;
  DeferredConstant(MLIRContext* context, RewriteReport& report)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), report(report) {}

  LogicalResult matchAndRewrite(Operation* op, PatternRewriter& rewriter) const override {
    if (op->getNumResults() != 1 || op->getNumRegions() != 0 || !depends_on_cotangent(op->getResult(0)))
      return failure();
    Builder build(rewriter, unnamed(op->getLoc()));
    Value value = Deferral{build}(op);
    if (!value) return failure();
    report.fired("deferred-constant", op->getLoc());
    keep_names(op);
    replace(rewriter, op, value);
    return success();
  }
};

}  // namespace

void deferred_constant(KernelOp kernel, RewriteReport& report) {
  RewritePatternSet patterns(kernel.getContext());
  patterns.add<DeferredConstant>(kernel.getContext(), report);
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  config.maxIterations = GreedyRewriteConfig::kNoLimit;
  (void)applyPatternsAndFoldGreedily(kernel, std::move(patterns), config);
}

}  // namespace kdagen::kda
