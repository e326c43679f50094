// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/sweeps.h"

using namespace mlir;
using namespace kdagen::kda;

namespace kdagen::schedule {

Sweeps assign_sweeps(KernelOp kernel, int steps) {
  Sweeps sweeps;
  enum { Open, Forward, Reverse };
  std::vector<int> direction(1, Open);
  for (Operation& op : kernel.block()) {
    int sweep = 0;
    for (Value operand : op.getOperands()) {
      int at = sweeps.of.lookup(operand.getDefiningOp());
      bool ends_rows = has_role(operand, AxisRole::Rows) && op.getNumResults() && !has_role(op.getResult(0), AxisRole::Rows);
      sweep = std::max(sweep, at + (ends_rows || isa<ShiftOp>(op) ? 1 : 0));
    }
    if (auto scan = dyn_cast<ScanOp>(op)) {
      int wanted = scan.getReverse() ? Reverse : Forward;
      while (sweep < int(direction.size()) && direction[sweep] != Open && direction[sweep] != wanted) ++sweep;
      if (sweep >= int(direction.size())) direction.resize(sweep + 1, Open);
      direction[sweep] = wanted;
    }
    if (sweep >= int(direction.size())) direction.resize(sweep + 1, Open);
    sweeps.of[&op] = steps == 1 ? 0 : sweep;
  }
  if (steps == 1) direction.assign(1, Open);
  for (int d : direction) sweeps.reverse.push_back(d == Reverse);
  return sweeps;
}

}  // namespace kdagen::schedule
