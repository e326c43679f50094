// SPDX-License-Identifier: Apache-2.0
#include "codegen/analysis/anchors.h"

#include <fmt/format.h>

#include "codegen/analysis/ranges.h"
#include "codegen/explain/formulas.h"
#include "codegen/ir/Builder.h"
#include "kdagen/error.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace kdagen {
namespace {

[[noreturn]] void refuse(kda::OutputOp output, const std::string& what) {
  throw SpecError(fmt::format("{}: error: output '{}' cannot be anchored: {}", kda::spec_line(output.getLoc()),
                              output.getTensor().str(), what));
}

/// The first exponential among the factors of a product; null if there is none.
kda::Exp2Op exponential_factor(Value value) {
  SmallVector<Value> pending = {value};
  llvm::DenseSet<Value> visited;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    if (!visited.insert(next).second) continue;
    Operation* op = next.getDefiningOp();
    if (auto exponential = llvm::dyn_cast<kda::Exp2Op>(op)) return exponential;
    if (llvm::isa<kda::MulOp, kda::NegOp, kda::BroadcastOp>(op))
      for (Value operand : llvm::reverse(op->getOperands())) pending.push_back(operand);
  }
  return {};
}

/// `value` (a product) with one factor replaced by another of the same axes; the path down to it is written anew. `without`:
/// values known not to have the factor.
Value with_factor(kda::Builder& build, Value value, Value factor, Value replacement, llvm::DenseSet<Value>& without) {
  if (value == factor) return replacement;
  Operation* op = value.getDefiningOp();
  if (!llvm::isa<kda::MulOp, kda::NegOp, kda::BroadcastOp>(op) || without.contains(value)) return {};
  for (OpOperand& operand : op->getOpOperands()) {
    Value changed = with_factor(build, operand.get(), factor, replacement, without);
    if (!changed) continue;
    Operation* copy = build.raw().clone(*op);
    copy->setOperand(operand.getOperandNumber(), changed);
    return copy->getResult(0);
  }
  without.insert(value);
  return {};
}

void place(kda::OutputOp output) {
  if (output.getAnchorKind() != StringRef("static"))
    refuse(output,
           "anchors by sub-chunk are not available; pass anchor static, or hand over 2^(total - cumsum) or the "
           "exponent itself");
  kda::Exp2Op exponential = exponential_factor(output.getValue());
  if (!exponential) refuse(output, "it is no product with a factor exp2(x); leave the anchor away");
  Interval range = analyse(kda::kernel_of(output.getOperation())).of(exponential.getX());
  if (!range.bounded())
    refuse(output, "the exponent " + formula(exponential.getX()) +
                       " has no bounds; bound the gate, or store the exponent itself");
  int64_t anchor = std::llrint(-(range.lo + range.hi) / 2);
  if (anchor != 0) {
    OpBuilder raw(output);
    kda::Builder build(raw, exponential.getLoc());
    Value exponent = build.add(exponential.getX(), build.constant(double(anchor)));
    exponent.getDefiningOp()->setAttr("kda.anchor", raw.getI64IntegerAttr(anchor));  // for the range report
    llvm::DenseSet<Value> without;
    output.getValueMutable().assign(
        with_factor(build, output.getValue(), exponential.getResult(), build.exp2(exponent), without));
    output.setAnchor(anchor);
  }
  output.removeAnchorKindAttr();
}

}  // namespace

void place_anchors(kda::KernelOp forward) {
  for (auto output : llvm::make_early_inc_range(forward.block().getOps<kda::OutputOp>()))
    if (output.getAnchorKind()) place(output);
}

}  // namespace kdagen
