// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/sweeps.h"

#include <algorithm>
#include <set>

#include "codegen/schedule/homes.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kdagen::kda;

namespace kdagen::schedule {
namespace {

/// The sweep in which an op may come at the earliest is so many later than that of its operand.
int sweeps_between(Value operand, Operation* op) {
  bool ends_rows =
      has_role(operand, AxisRole::Rows) && op->getNumResults() && !has_role(op->getResult(0), AxisRole::Rows);
  return ends_rows || isa<ShiftOp>(op) ? 1 : 0;
}

Sweeps earliest(KernelOp kernel) {
  Sweeps sweeps;
  enum { Open, Forward, Reverse };
  std::vector<int> direction(1, Open);
  for (Operation& op : kernel.block()) {
    int sweep = 0;
    for (Value operand : op.getOperands())
      sweep = std::max(sweep, sweeps.of.lookup(operand.getDefiningOp()) + sweeps_between(operand, &op));
    auto scan = dyn_cast<ScanOp>(op);
    if (scan || isa<BoundaryOp>(op)) {  // a boundary reads rows before its own
      int wanted = scan && scan.getReverse() ? Reverse : Forward;
      while (sweep < int(direction.size()) && direction[sweep] != Open && direction[sweep] != wanted) ++sweep;
      if (sweep >= int(direction.size())) direction.resize(sweep + 1, Open);
      direction[sweep] = wanted;
    }
    if (sweep >= int(direction.size())) direction.resize(sweep + 1, Open);
    sweeps.of[&op] = sweep;
  }
  for (int d : direction) sweeps.reverse.push_back(d == Reverse);
  return sweeps;
}

bool has_rows(Operation& op) {
  return llvm::any_of(op.getNumResults() ? ValueRange(op.getResults()) : ValueRange(op.getOperands()),
                      [](Value v) { return has_role(v, AxisRole::Rows); });
}

/// Scans, boundaries and what has no rows stay; the rest comes as late as its users allow, outputs in the last sweep
/// that has anything to do.
Sweeps latest(KernelOp kernel, const Sweeps& early) {
  Sweeps late = early;
  int last = 0;
  for (Operation& op : kernel.block())
    if (has_rows(op)) last = std::max(last, early.of.lookup(&op));
  for (Operation& op : llvm::reverse(kernel.block())) {
    if (isa<ScanOp, BoundaryOp>(op) || !has_rows(op)) continue;
    int sweep = last;
    for (Value result : op.getResults())
      for (Operation* user : result.getUsers())
        sweep = std::min(sweep, late.of.lookup(user) - sweeps_between(result, user));
    late.of[&op] = sweep;
  }
  return late;
}

/// Bytes an element of a tile costs: every sweep loads what it reads, and what a sum or scan of an earlier sweep made
/// waits in shared memory for the whole chunk.
class Cost {
 public:
  Cost(KernelOp kernel, const Sweeps& sweeps) : sweeps_(sweeps) {
    for (Operation& op : kernel.block()) {
      bool item = isa<OutputOp>(op) || !is_pointwise(&op);
      if (!item || op.getNumOperands() == 0) continue;
      for (Value operand : register_operands(&op))
        visit(operand, sweeps.of.lookup(&op) - (operand == op.getOperand(0) ? sweeps_between(operand, &op) : 0));
    }
  }
  int bytes() const { return bytes_; }

 private:
  void visit(Value value, int sweep) {
    Operation* op = value.getDefiningOp();
    if (shape_of(value) != Shape::Tile || !seen_.insert({op, sweep}).second) return;
    if (auto input = dyn_cast<InputOp>(op))
      bytes_ += int(input.getStorage().getIntOrFloatBitWidth()) / 8;
    else if (is_pointwise(op))
      for (Value operand : op->getOperands()) visit(operand, sweep);
    else if (sweeps_.of.lookup(op) < sweep && kept_.insert(op).second)
      bytes_ += 2 * 4;
  }

  const Sweeps& sweeps_;
  std::set<std::pair<Operation*, int>> seen_;
  std::set<Operation*> kept_;
  int bytes_ = 0;
};
}  // namespace

Sweeps assign_sweeps(KernelOp kernel, int steps) {
  Sweeps early = earliest(kernel);
  if (steps == 1) {
    for (auto& [op, sweep] : early.of) sweep = 0;
    early.reverse.assign(1, false);
    return early;
  }
  Sweeps late = latest(kernel, early);
  return Cost(kernel, late).bytes() < Cost(kernel, early).bytes() ? late : early;
}

}  // namespace kdagen::schedule
