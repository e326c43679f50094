// SPDX-License-Identifier: Apache-2.0
#include "codegen/analysis/ranges.h"

#include "codegen/analysis/transfer.h"

using namespace mlir;

namespace kdagen {

Interval Ranges::of(Value value) const {
  // post-order with a stack of its own: a chain may be longer than the machine's stack
  SmallVector<Value> pending = {value};
  while (!pending.empty()) {
    Value next = pending.back();
    if (known_.contains(next)) {
      pending.pop_back();
      continue;
    }
    Operation* op = next.getDefiningOp();
    size_t before = pending.size();
    for (Value operand : op->getOperands())
      if (!known_.contains(operand)) pending.push_back(operand);
    if (pending.size() > before) continue;
    Interval result = transfer(op, assumptions_, [&](Value operand) { return known_.at(operand); });
    known_[next] = result;
    pending.pop_back();
  }
  return known_.at(value);
}

// Between exact reals and floats stand the roundings of the argument's own computation; a margin of 2^-16 covers chains
// of hundreds of them.
bool Ranges::proven_exponent(Value argument) const {
  constexpr double margin = 1 + 0x1p-16;
  Interval range = of(argument);
  return range.lo * margin > -normal_exponent_limit && range.hi * margin < normal_exponent_limit;
}

Ranges analyse(kda::KernelOp kernel, Assumptions assumptions) {
  Ranges ranges(std::move(assumptions));
  for (Operation& op : kernel.block())
    if (op.getNumResults() == 1) ranges.of(op.getResult(0));
  return ranges;
}

}  // namespace kdagen
