// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/contract.h"

#include "codegen/rewrite/values.h"

using namespace mlir;
using namespace kdagen::kda;

namespace kdagen::schedule {
namespace {

/// The product that may become part of `sum`, or null.
MulOp product_of(Value term, Operation* sum) {
  auto mul = term.getDefiningOp<MulOp>();
  bool fits = mul && mul->hasOneUse() && mul.getType() == sum->getResult(0).getType();
  return fits ? mul : nullptr;
}

Value negative(OpBuilder& raw, Value value) {
  if (auto neg = value.getDefiningOp<NegOp>()) return neg.getX();
  return raw.create<NegOp>(unnamed(value.getLoc()), value.getType(), value);
}
}  // namespace

void contract_products(KernelOp kernel) {
  for (Operation& op : llvm::make_early_inc_range(kernel.block())) {
    if (!isa<AddOp, SubOp>(op) || !depends_on_cotangent(op.getResult(0))) continue;
    Value first = op.getOperand(0), second = op.getOperand(1);
    MulOp mul = product_of(second, &op);
    bool of_second = bool(mul);
    if (!mul) mul = product_of(first, &op);
    if (!mul) continue;
    OpBuilder raw(&op);
    Value a = mul.getA(), c = of_second ? first : second;
    if (isa<SubOp>(op)) (of_second ? a : c) = negative(raw, of_second ? a : c);
    auto fma = raw.create<FmaOp>(op.getLoc(), op.getResult(0).getType(), a, mul.getB(), c);
    op.getResult(0).replaceAllUsesWith(fma.getResult());
    op.erase();
    mul.erase();
  }
}

}  // namespace kdagen::schedule
