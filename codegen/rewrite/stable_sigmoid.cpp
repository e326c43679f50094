// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/stable_sigmoid.h"

#include "codegen/rewrite/products.h"
#include "llvm/ADT/DenseSet.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

/// Whether `value` is 1 - s or the sigmoid of the negated argument of s.
bool complements(Value value, SigmoidOp s) {
  if (auto op = value.getDefiningOp<SubOp>()) {
    auto one = constant_scalar(op.getA());
    return one && one->is(1.0) && without_broadcast(op.getB()) == s.getResult();
  }
  auto other = value.getDefiningOp<SigmoidOp>();
  auto negated = other ? other.getX().getDefiningOp<NegOp>() : NegOp();
  return negated && negated.getX() == s.getX();
}

/// The factors of a product, each once.
SmallVector<Value> leaves(Value value) {
  SmallVector<Value> result, pending = {value};
  llvm::DenseSet<Value> visited;
  while (!pending.empty()) {
    Value next = without_broadcast(pending.pop_back_val());
    if (!visited.insert(next).second) continue;
    if (auto op = next.getDefiningOp<MulOp>())
      pending.append({op.getB(), op.getA()});
    else
      result.push_back(next);
  }
  return result;
}

/// The product with the first occurrence of `leaf` replaced (by nothing if `by` is null); null if nothing is left.
Value with_leaf(Builder& build, Value value, Value leaf, Value by) {
  value = without_broadcast(value);
  if (value == leaf) return by;
  auto op = value.getDefiningOp<MulOp>();
  bool left = llvm::is_contained(leaves(op.getA()), leaf);
  Value changed = with_leaf(build, left ? op.getA() : op.getB(), leaf, by);
  Value kept = left ? op.getB() : op.getA();
  if (!changed) return kept;
  return left ? build.mul(changed, kept) : build.mul(kept, changed);
}

Value gradient_of(Builder& build, SigmoidOp s) { return build.pointwise<SigmoidGradOp>({s.getX()}); }

struct InProduct : OpRewritePattern<MulOp> {
  RewriteReport& report;
  InProduct(MLIRContext* context, RewriteReport& report) : OpRewritePattern(context), report(report) {}

  /// One factor on each side: a product that holds both on one side is rewritten there.
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter& rewriter) const override {
    SmallVector<Value> first = leaves(op.getA()), second = leaves(op.getB());
    return success(rewrite(op, first, second, rewriter) || rewrite(op, second, first, rewriter));
  }

  bool rewrite(MulOp op, ArrayRef<Value> sigmoids, ArrayRef<Value> others, PatternRewriter& rewriter) const {
    for (Value factor : sigmoids) {
      auto s = factor.getDefiningOp<SigmoidOp>();
      auto complement = s ? llvm::find_if(others, [&](Value other) { return complements(other, s); }) : others.end();
      if (complement == others.end()) continue;
      Builder build(rewriter, unnamed(op.getLoc()));
      Value product = with_leaf(build, op, *complement, {});
      report.fired("stable-sigmoid", op.getLoc());
      replace(rewriter, op, with_leaf(build, product, s, gradient_of(build, s)));
      return true;
    }
    return false;
  }
};

struct InDifference : OpRewritePattern<SubOp> {
  RewriteReport& report;
  InDifference(MLIRContext* context, RewriteReport& report) : OpRewritePattern(context), report(report) {}

  LogicalResult matchAndRewrite(SubOp op, PatternRewriter& rewriter) const override {
    Value whole = op.getA();
    auto part = op.getB().getDefiningOp<MulOp>();
    if (!part || (part.getA() != whole && part.getB() != whole)) return failure();
    auto s = (part.getA() == whole ? part.getB() : part.getA()).getDefiningOp<SigmoidOp>();
    if (!s || !llvm::is_contained(leaves(whole), s.getResult())) return failure();
    Builder build(rewriter, unnamed(op.getLoc()));
    report.fired("stable-sigmoid", op.getLoc());
    replace(rewriter, op, with_leaf(build, whole, s, gradient_of(build, s)));
    return success();
  }
};

}  // namespace

void stable_sigmoid(KernelOp kernel, RewriteReport& report) {
  RewritePatternSet patterns(kernel.getContext());
  patterns.add<InProduct, InDifference>(kernel.getContext(), report);
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  (void)applyPatternsAndFoldGreedily(kernel, std::move(patterns), config);
}

}  // namespace kdagen::kda
