// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/finite_exponential.h"

#include <limits>

#include "codegen/analysis/ranges.h"
#include "codegen/rewrite/values.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

constexpr double largest = std::numeric_limits<float>::max();

bool is_of_parameters(Value value) { return section_of(value) == Section::Prologue; }

/// The values that parameters alone make, by an exponential among others, and that may pass the largest float.
llvm::MapVector<Value, Interval> unbounded_exponentials(KernelOp kernel) {
  const Ranges ranges;
  llvm::DenseSet<Value> exponentials;
  llvm::MapVector<Value, Interval> result;
  for (Operation& op : kernel.getBody().front()) {
    if (op.getNumResults() != 1 || !is_of_parameters(op.getResult(0))) continue;
    const Value value = op.getResult(0);
    if (!llvm::isa<ExpOp, Exp2Op, PowOp>(op) &&
        llvm::none_of(op.getOperands(), [&](Value operand) { return exponentials.contains(operand); }))
      continue;
    exponentials.insert(value);
    if (const Interval range = ranges.of(value); range.magnitude() > largest) result.insert({value, range});
  }
  return result;
}

class FiniteExponential {
 public:
  FiniteExponential(KernelOp kernel, RewriteReport& report)
      : kernel_(kernel), report_(report), unbounded_(unbounded_exponentials(kernel)) {}

  void run() {
    for (auto mul : kernel_.getBody().front().getOps<MulOp>()) products_.push_back(mul);
    for (size_t i = 0; i < products_.size(); ++i) multiply_later(products_[i]);
    llvm::MapVector<Value, SmallVector<OpOperand*>> factors;
    for (Operation& op : kernel_.getBody().front())
      if (llvm::isa<MulOp, FmaOp>(op) && !is_of_parameters(op.getResult(0)))
        for (OpOperand& operand : op.getOpOperands().take_front(2))
          if (unbounded_.contains(without_broadcast(operand.get())))
            factors[without_broadcast(operand.get())].push_back(&operand);
    for (auto& [p, uses] : factors) bound(p, uses);
  }

 private:
  bool is_factor(Value value) const { return unbounded_.contains(without_broadcast(value)); }

  /// What has become of no use stays, for clean_up.
  void multiply_later(MulOp first) {
    if (is_of_parameters(first) || is_factor(first.getA()) == is_factor(first.getB())) return;
    const bool left = is_factor(first.getA());
    const Value p = left ? first.getA() : first.getB(), x = left ? first.getB() : first.getA();
    if (is_of_parameters(x)) return;
    const auto other_factor = [&](MulOp mul) { return mul.getA() == first.getResult() ? mul.getB() : mul.getA(); };
    SmallVector<MulOp> users;
    for (Operation* user : first->getUsers()) {
      if (mlir::isOpTriviallyDead(user)) continue;
      auto mul = llvm::dyn_cast<MulOp>(user);
      if (!mul || mul.getA() == mul.getB() || is_of_parameters(other_factor(mul))) return;
      users.push_back(mul);
    }
    for (MulOp second : users) {
      OpBuilder builder(second);
      Builder build(builder, unnamed(second.getLoc()));
      const Value inner = build.mul(x, other_factor(second));
      build.set_location(second.getLoc());
      const Value outer = build.mul(inner, p);
      second.getResult().replaceAllUsesWith(outer);
      products_.push_back(outer.getDefiningOp<MulOp>());
    }
  }

  void bound(Value p, ArrayRef<OpOperand*> uses) {
    const Interval range = unbounded_.lookup(p);
    OpBuilder builder(p.getContext());
    builder.setInsertionPointAfterValue(p);
    Builder build(builder, unnamed(p.getLoc()));
    Value finite = p;
    if (range.lo < -largest) finite = build.pointwise<MaxOp>({finite, build.constant(-largest)});
    if (range.hi > largest) finite = build.pointwise<MinOp>({finite, build.constant(largest)});
    for (OpOperand* use : uses) {
      builder.setInsertionPoint(use->getOwner());
      use->set(build.broadcast_like(finite, use->get()));
    }
    report_.fired("finite-exponential", p.getLoc());
  }

  KernelOp kernel_;
  RewriteReport& report_;
  llvm::MapVector<Value, Interval> unbounded_;
  std::vector<MulOp> products_;  // to look at; what one hands on is looked at again
};

}  // namespace

void finite_exponential(KernelOp kernel, RewriteReport& report) { FiniteExponential(kernel, report).run(); }

}  // namespace kdagen::kda
