// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/shared_exponential.h"

#include "codegen/rewrite/values.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

bool has_rows(Value value) { return has_role(value, AxisRole::Rows); }

/// 2^argument, or 2^-argument; null if it is not evaluated.
Exp2Op exponential_of(Value argument, bool negative) {
  for (Operation* user : argument.getUsers()) {
    if (auto exp2 = llvm::dyn_cast<Exp2Op>(user); exp2 && !negative) return exp2;
    if (auto neg = llvm::dyn_cast<NegOp>(user); neg && negative)
      if (Exp2Op exp2 = exponential_of(neg.getResult(), false)) return exp2;
  }
  return {};
}

/// The forward's residual that holds 2^argument.
OutputOp saved_exponential(KernelOp forward, Value argument) {
  if (!forward) return {};
  for (auto output : forward.block().getOps<OutputOp>()) {
    auto exp2 = output.getRole() == "residual" ? output.getValue().getDefiningOp<Exp2Op>() : Exp2Op();
    if (exp2 && same_value(exp2.getX(), argument)) return output;
  }
  return {};
}

struct SharedExponential {
  IRRewriter rewriter;
  const RewriteOptions& options;
  RewriteReport& report;

  bool proven(Value argument) { return options.proven_exponent && options.proven_exponent(argument); }

  /// 2^argument of a column, computed or read.
  Value column_exponential(Builder& build, Exp2Op op, Value argument) {
    KernelOp kernel = kernel_of(op.getOperation());
    OutputOp saved = kernel.getDirection() == "bwd" ? saved_exponential(options.forward, argument) : OutputOp();
    if (!saved) return build.exp2(argument);
    for (auto input : kernel.block().getOps<InputOp>())
      if (input.getTensor() == saved.getTensor() && input->isBeforeInBlock(op)) return input;
    return rewriter.create<InputOp>(named(saved.getLoc(), saved.getTensor()), argument.getType(), saved.getTensor(),
                                    "residual", saved.getStorage(), FloatAttr(), FloatAttr(), false, FloatAttr());
  }

  void apply(Exp2Op op) {
    auto sub = without_broadcast(op.getX()).getDefiningOp<SubOp>();
    if (!sub || has_rows(sub.getA()) == has_rows(sub.getB())) return;
    bool rows_negative = has_rows(sub.getB());
    Value rows = without_broadcast(rows_negative ? sub.getB() : sub.getA());
    Value column = without_broadcast(rows_negative ? sub.getA() : sub.getB());
    Exp2Op shared = exponential_of(rows, rows_negative);
    if (!shared || !proven(op.getX()) || !proven(shared.getX())) return;
    rewriter.setInsertionPoint(op);
    Builder build(rewriter, unnamed(op.getLoc()));
    Value argument = rows_negative ? column : build.neg(column);
    if (!proven(argument)) return;
    // both may stand elsewhere already: equal values are merged afterwards
    Value by_row = build.exp2(rows_negative ? build.neg(rows) : rows);
    report.fired("shared-exponential", op.getLoc());
    replace(rewriter, op, build.mul(column_exponential(build, op, argument), by_row));
  }
};

}  // namespace

void shared_exponential(KernelOp kernel, const RewriteOptions& options, RewriteReport& report) {
  SharedExponential rewrite{IRRewriter(kernel.getContext()), options, report};
  for (auto op : llvm::make_early_inc_range(kernel.block().getOps<Exp2Op>())) rewrite.apply(op);
}

}  // namespace kdagen::kda
