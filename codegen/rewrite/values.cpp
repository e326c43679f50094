// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/values.h"

#include "mlir/Analysis/TopologicalSortUtils.h"

using namespace mlir;

namespace kdagen::kda {
CotangentDependence::CotangentDependence(Block& block) {
  for (auto input : block.getOps<InputOp>())
    if (input.getRole() == "cotangent") {
      first_ = input;
      return;
    }
}

bool CotangentDependence::of(Value value) {
  Operation* op = value.getDefiningOp();
  if (!first_ || op->isBeforeInBlock(first_)) return false;  // the forward stands in front
  auto [known, added] = known_.try_emplace(op, false);
  if (!added) return known->second;
  auto input = llvm::dyn_cast<InputOp>(op);
  bool result =
      input ? input.getRole() == "cotangent" : llvm::any_of(op->getOperands(), [&](Value x) { return of(x); });
  return known_[op] = result;
}

bool depends_on_cotangent(Value value) { return CotangentDependence(*value.getParentBlock()).of(value); }

namespace {
using Pairs = llvm::DenseMap<std::pair<Value, Value>, bool>;

bool same_value(Value value, Value other, Pairs& known) {
  Operation *a = value.getDefiningOp(), *b = other.getDefiningOp();
  if (auto input = llvm::dyn_cast<InputOp>(b); input && input.getRole() == "residual")
    return user_name(value) == input.getTensor().str();
  if (auto it = known.find({value, other}); it != known.end()) return it->second;
  bool same = a->getName() == b->getName() && a->getAttrDictionary() == b->getAttrDictionary() &&
              llvm::all_of(llvm::zip(a->getOperands(), b->getOperands()), [&](auto operands) {
                return same_value(std::get<0>(operands), std::get<1>(operands), known);
              });
  return known[{value, other}] = same;
}
}  // namespace

bool same_value(Value value, Value other) {
  Pairs known;
  return same_value(value, other, known);
}

bool before(Value a, Value b) { return a != b && a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp()); }

bool same_axes(Value a, Value b) { return type_of(a).getAxes() == type_of(b).getAxes(); }

bool axes_within(Value a, Value b) {
  return llvm::all_of(type_of(a).getAxes(), [&](StringAttr axis) { return type_of(b).hasAxis(axis.getValue()); });
}

std::vector<std::string> axes_of(ArrayAttr over) {
  std::vector<std::string> axes;
  for (Attribute axis : over) axes.push_back(llvm::cast<StringAttr>(axis).getValue().str());
  return axes;
}

Value without_broadcast(Value value) {
  while (auto op = value.getDefiningOp<BroadcastOp>()) value = op.getX();
  return value;
}

Location unnamed(Location location) {
  while (auto name = llvm::dyn_cast<NameLoc>(location)) location = name.getChildLoc();
  return location;
}

void hand_over_name(Value replaced, Value value) {
  auto name = user_name(replaced);
  if (name && !user_name(value) && !value.getDefiningOp<InputOp>()) value.setLoc(named(value.getLoc(), *name));
}

void put_after_operands(KernelOp kernel) { sortTopologically(&kernel.block()); }

void replace(RewriterBase& rewriter, Operation* op, Value value) {
  Value old = op->getResult(0);
  if (!same_axes(old, value)) value = Builder(rewriter, unnamed(op->getLoc())).broadcast_like(value, old);
  hand_over_name(old, value);
  rewriter.replaceOp(op, value);
}

}  // namespace kdagen::kda
