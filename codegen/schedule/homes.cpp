// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/homes.h"

using namespace mlir;
using namespace kdagen::kda;

namespace kdagen::schedule {

bool is_pointwise(Operation* op) {
  return !isa<InputOp, ConstantOp, IndexOp, OutputOp, SumOp, MaxReduceOp, ScanOp, LastOp, ShiftOp>(op);
}

bool reduces(Operation* op, AxisRole role) {
  if (!isa<SumOp, MaxReduceOp>(op)) return false;
  return has_role(op->getOperand(0), role) && !has_role(op->getResult(0), role);
}

Map Homes::map_of(Operation* op) const {
  if (auto output = dyn_cast<OutputOp>(op)) {
    Home home = of.lookup(output.getValue());
    if (home != Home::Any) return home == Home::Row ? Map::Row : Map::Column;
    return shape_of(output.getValue()) == Shape::Columns ? Map::Column : Map::Row;
  }
  Shape operand = op->getNumOperands() ? shape_of(op->getOperand(0)) : Shape::Single;
  if (reduces(op, AxisRole::Feature)) return Map::Row;
  if (isa<SumOp, MaxReduceOp, ScanOp, LastOp, ShiftOp>(op))
    return operand == Shape::Tile || operand == Shape::Columns ? Map::Column : Map::Row;
  return of.lookup(op->getResult(0)) == Home::Column ? Map::Column : Map::Row;
}

namespace {

/// The home a value has by the nature of its op; Any for what needs none; nothing where the search decides.
std::optional<Home> fixed_home(Operation* op, const Homes& homes) {
  Value result = op->getResult(0);
  Shape shape = shape_of(result);
  if (section_of(result) != Section::Tile || isa<InputOp, ConstantOp, IndexOp>(op) || shape == Shape::Single) return Home::Any;
  if (!is_pointwise(op)) return shape == Shape::Rows ? Home::Row : Home::Column;
  bool anywhere = llvm::all_of(op->getOperands(), [&](Value operand) { return homes[operand] == Home::Any; });
  if (shape != Shape::Tile) return anywhere ? Home::Any : shape == Shape::Rows ? Home::Row : Home::Column;
  return std::nullopt;
}

/// Moves through shared memory (1 a tile, little for a row or column), loads of a tile in a second map, narrow stores.
double cost(KernelOp kernel, const Homes& homes) {
  double total = 0;
  for (Operation& op : kernel.block()) {
    if (op.getNumResults() == 0) {
      if (section_of(op.getOperand(0)) == Section::Tile && shape_of(op.getOperand(0)) == Shape::Tile && homes.map_of(&op) == Map::Column)
        total += 0.25;
      continue;
    }
    Value value = op.getResult(0);
    if (section_of(value) != Section::Tile) continue;
    bool used[2] = {false, false};
    for (Operation* user : value.getUsers()) used[int(homes.map_of(user))] = true;
    Shape shape = shape_of(value);
    if (homes[value] == Home::Any) {
      if (shape == Shape::Tile && isa<InputOp>(op)) total += 1.0 * used[int(Map::Row)] + 1.2 * used[int(Map::Column)];
    } else if (used[int(homes[value] == Home::Row ? Map::Column : Map::Row)]) {
      total += shape == Shape::Tile ? 1.0 : 0.15;
    }
  }
  return total;
}

double search(KernelOp kernel, Homes& homes, llvm::ArrayRef<Value> free) {
  double best = cost(kernel, homes);
  for (bool improved = true; improved;) {
    improved = false;
    for (Value value : free) {
      Home& home = homes.of[value];
      Home old = home;
      home = old == Home::Row ? Home::Column : Home::Row;
      double now = cost(kernel, homes);
      if (now < best - 1e-9) {
        best = now;
        improved = true;
      } else {
        homes.of[value] = old;
      }
    }
  }
  return best;
}
}  // namespace

Homes assign_homes(KernelOp kernel) {
  Homes base;
  llvm::SmallVector<Value> free;
  for (Operation& op : kernel.block()) {
    if (op.getNumResults() == 0) continue;
    auto home = fixed_home(&op, base);
    base.of[op.getResult(0)] = home.value_or(Home::Row);
    if (!home) free.push_back(op.getResult(0));
  }
  // Two starts: everything on the row side, and everything where its operands are.
  Homes rows = base, follow = base;
  for (Value value : free) {
    bool column = llvm::any_of(value.getDefiningOp()->getOperands(), [&](Value operand) {
      return shape_of(operand) == Shape::Tile && follow[operand] == Home::Column;
    });
    follow.of[value] = column ? Home::Column : Home::Row;
  }
  return search(kernel, rows, free) <= search(kernel, follow, free) ? rows : follow;
}

}  // namespace kdagen::schedule
