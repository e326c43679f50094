// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/values.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

bool depends(Value value, llvm::DenseSet<Value>& visited) {
  if (!visited.insert(value).second) return false;
  Operation* op = value.getDefiningOp();
  if (auto input = llvm::dyn_cast_or_null<InputOp>(op)) return input.getRole() == "cotangent";
  return op && llvm::any_of(op->getOperands(), [&](Value operand) { return depends(operand, visited); });
}

}  // namespace

bool depends_on_cotangent(Value value) {
  llvm::DenseSet<Value> visited;
  return depends(value, visited);
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

void replace(RewriterBase& rewriter, Operation* op, Value value) {
  Value old = op->getResult(0);
  if (!same_axes(old, value)) value = Builder(rewriter, unnamed(op->getLoc())).broadcast_like(value, old);
  hand_over_name(old, value);
  rewriter.replaceOp(op, value);
}

}  // namespace kdagen::kda
