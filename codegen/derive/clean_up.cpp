// SPDX-License-Identifier: Apache-2.0
#include "codegen/analysis/anchors.h"
#include "codegen/derive/derive.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace kdagen {
namespace {
using kda::Builder;
using kda::KernelOp;

/// Replaces the op's result; a name of the user's moves to the replacement if that has none.
void replace_keeping_name(Operation* op, Value value) {
  if (auto name = kda::user_name(op->getResult(0)))
    if (Operation* other = value.getDefiningOp();
        !kda::user_name(value) && !llvm::isa<kda::InputOp, kda::ConstantOp>(other))
      other->setLoc(kda::named(other->getLoc(), *name));
  op->getResult(0).replaceAllUsesWith(value);
}

struct SameExpression : llvm::DenseMapInfo<Operation*> {
  static unsigned getHashValue(const Operation* op) {
    return OperationEquivalence::computeHash(const_cast<Operation*>(op), OperationEquivalence::directHashValue,
                                             OperationEquivalence::ignoreHashValue,
                                             OperationEquivalence::IgnoreLocations);
  }
  static bool isEqual(const Operation* left, const Operation* right) {
    auto *a = const_cast<Operation*>(left), *b = const_cast<Operation*>(right);
    if (a == b) return true;
    if (a == getTombstoneKey() || a == getEmptyKey() || b == getTombstoneKey() || b == getEmptyKey()) return false;
    return OperationEquivalence::isEquivalentTo(a, b, OperationEquivalence::IgnoreLocations);
  }
};

bool merge_equal(KernelOp kernel) {
  llvm::DenseMap<Operation*, Operation*, SameExpression> known;
  bool changed = false;
  for (Operation& op : llvm::make_early_inc_range(kernel.block())) {
    if (!isPure(&op)) continue;
    auto [it, added] = known.try_emplace(&op, &op);
    if (added) continue;
    replace_keeping_name(&op, it->second->getResult(0));
    op.erase();
    changed = true;
  }
  return changed;
}

bool drop_dead(KernelOp kernel) {
  bool changed = false;
  for (Operation& op : llvm::make_early_inc_range(llvm::reverse(kernel.block())))
    if (isOpTriviallyDead(&op)) {
      op.erase();
      changed = true;
    }
  return changed;
}

bool is_number(Value value, double number) {
  auto scalar = kda::constant_scalar(value);
  return scalar && scalar->is(number);
}

/// x if it has the axes of the op's result.
Value if_same_axes(Operation* op, Value x) { return x.getType() == op->getResult(0).getType() ? x : Value(); }

/// An equal value for the op's result, or null. Every identity holds bit for bit, infinities and NaN included.
Value simpler(Operation* op, Builder& build) {
  auto constant_one = [&] {
    return kda::type_of(op->getResult(0)).getAxes().empty()
               ? build.constant(1.0)
               : build.broadcast_like(build.constant(1.0), op->getResult(0));
  };
  if (auto mul = llvm::dyn_cast<kda::MulOp>(op)) {
    if (is_number(mul.getB(), 1.0)) return if_same_axes(op, mul.getA());
    if (is_number(mul.getA(), 1.0)) return if_same_axes(op, mul.getB());
  }
  if (auto div = llvm::dyn_cast<kda::DivOp>(op))
    if (is_number(div.getB(), 1.0)) return if_same_axes(op, div.getA());
  if (auto pow = llvm::dyn_cast<kda::PowOp>(op))
    if (is_number(pow.getB(), 1.0)) return if_same_axes(op, pow.getA());
  if (auto sub = llvm::dyn_cast<kda::SubOp>(op)) {
    if (is_number(sub.getB(), 0.0)) return if_same_axes(op, sub.getA());
    if (auto neg = sub.getB().getDefiningOp<kda::NegOp>()) return build.add(sub.getA(), neg.getX());
  }
  if (auto add = llvm::dyn_cast<kda::AddOp>(op)) {
    if (auto neg = add.getB().getDefiningOp<kda::NegOp>()) return build.sub(add.getA(), neg.getX());
    if (auto neg = add.getA().getDefiningOp<kda::NegOp>()) return build.sub(add.getB(), neg.getX());
  }
  if (llvm::isa<kda::ExpOp, kda::Exp2Op>(op) && is_number(op->getOperand(0), 0.0)) return constant_one();
  if (auto neg = llvm::dyn_cast<kda::NegOp>(op))
    if (auto inner = neg.getX().getDefiningOp<kda::NegOp>()) return inner.getX();
  if (auto select = llvm::dyn_cast<kda::SelectOp>(op))
    if (select.getA() == select.getB()) return if_same_axes(op, select.getA());
  if (auto broadcast = llvm::dyn_cast<kda::BroadcastOp>(op)) {
    if (broadcast.getX().getType() == broadcast.getType()) return broadcast.getX();
    if (auto inner = broadcast.getX().getDefiningOp<kda::BroadcastOp>())
      return build.raw().create<kda::BroadcastOp>(op->getLoc(), broadcast.getType(), inner.getX());
  }
  return {};
}

/// A pointwise op broadcasts by itself: an operand's broadcast goes where the other operands have its axes anyway.
bool drop_broadcasts(Operation* op) {
  if (llvm::isa<kda::OutputOp>(op)) {
    auto broadcast = op->getOperand(0).getDefiningOp<kda::BroadcastOp>();
    if (broadcast) op->setOperand(0, broadcast.getX());
    return bool(broadcast);
  }
  if (!op->hasTrait<kda::UnionAxes>()) return false;
  bool changed = false;
  OpBuilder raw(op);
  Builder build(raw, op->getLoc());
  for (OpOperand& operand : op->getOpOperands()) {
    auto broadcast = operand.get().getDefiningOp<kda::BroadcastOp>();
    if (!broadcast) continue;
    SmallVector<Value> operands(op->getOperands());
    operands[operand.getOperandNumber()] = broadcast.getX();
    if (build.union_type(operands, false).getAxes() != kda::type_of(op->getResult(0)).getAxes()) continue;
    operand.set(broadcast.getX());
    changed = true;
  }
  return changed;
}

bool simplify(KernelOp kernel) {
  bool changed = false;
  for (Operation& op : llvm::make_early_inc_range(kernel.block())) {
    changed |= drop_broadcasts(&op);
    if (op.getNumResults() != 1) continue;
    OpBuilder raw(&op);
    Builder build(raw, op.getLoc());
    if (Value value = simpler(&op, build)) {
      if (auto anchor = op.getAttr(anchored_attribute);
          anchor && llvm::isa<kda::AddOp, kda::SubOp>(value.getDefiningOp()))
        value.getDefiningOp()->setAttr(anchored_attribute, anchor);
      replace_keeping_name(&op, value);
      op.erase();
      changed = true;
    }
  }
  return changed;
}

/// x if `value` is detach(x), looking through broadcasts.
Value detached(Value value) {
  if (auto broadcast = value.getDefiningOp<kda::BroadcastOp>()) return detached(broadcast.getX());
  auto detach = value.getDefiningOp<kda::DetachOp>();
  return detach ? detach.getX() : Value();
}

}  // namespace

void resolve_detach(KernelOp kernel) {
  merge_equal(kernel);  // x and the x under detach may have been written out twice
  for (auto sub : llvm::make_early_inc_range(kernel.block().getOps<kda::SubOp>())) {
    bool zero = detached(sub.getB()) == sub.getA() || detached(sub.getA()) == sub.getB();
    if (!zero) continue;
    OpBuilder raw(sub);
    Builder build(raw, sub.getLoc());
    sub.getResult().replaceAllUsesWith(build.broadcast_like(build.constant(0.0), sub.getResult()));
    sub.erase();
  }
  for (auto detach : llvm::make_early_inc_range(kernel.block().getOps<kda::DetachOp>())) {
    replace_keeping_name(detach, detach.getX());
    detach.erase();
  }
}

void clean_up(KernelOp kernel) {
  for (bool changed = true; changed;) {
    changed = simplify(kernel);
    changed |= merge_equal(kernel);
    changed |= drop_dead(kernel);
  }
}

}  // namespace kdagen
