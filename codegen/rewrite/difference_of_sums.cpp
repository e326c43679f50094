// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/difference_of_sums.h"

#include <cmath>

#include "codegen/rewrite/values.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

/// What the value is the sum over all rows of; null if it is none.
Value total_of(Value value) {
  value = without_broadcast(value);
  if (auto last = value.getDefiningOp<LastOp>()) {
    auto scan = last.getX().getDefiningOp<ScanOp>();
    return scan && !scan.getExclusive() && !scan.getReverse() ? scan.getX() : Value();
  }
  auto sum = value.getDefiningOp<SumOp>();
  if (!sum || sum.getOver().size() != 1) return {};
  AxisAttr axis = kernel_of(sum.getOperation()).axis(llvm::cast<StringAttr>(sum.getOver()[0]).getValue());
  return axis.getRole() == AxisRole::Rows ? sum.getX() : Value();
}

struct DifferenceOfSums {
  IRRewriter rewriter;
  const RewriteOptions& options;
  RewriteReport& report;

  /// The rows of x that total(x) - scan(x) leaves; null if the two are no such sums.
  Value rows_left(SubOp op, Value total, Value partial) {
    Value x = total_of(total);
    auto scan = without_broadcast(partial).getDefiningOp<ScanOp>();
    if (!x || !scan || scan.getX() != x || depends_on_cotangent(x)) return {};
    if (options.saves(without_broadcast(total)) || options.saves(scan)) return {};
    if (!options.magnitude || std::isfinite(options.magnitude(x))) return {};
    rewriter.setInsertionPoint(op);
    Builder build(rewriter, unnamed(op.getLoc()));
    return build.scan(x, scan.getOver(), !scan.getExclusive(), !scan.getReverse());
  }

  void apply(SubOp op) {
    Value left = rows_left(op, op.getA(), op.getB());
    const bool negative = !left;
    if (negative) left = rows_left(op, op.getB(), op.getA());
    if (!left) return;
    if (negative) left = Builder(rewriter, unnamed(op.getLoc())).neg(left);
    report.fired("difference-of-sums", op.getLoc());
    replace(rewriter, op, left);
  }
};

}  // namespace

void difference_of_sums(KernelOp kernel, const RewriteOptions& options, RewriteReport& report) {
  DifferenceOfSums rewrite{IRRewriter(kernel.getContext()), options, report};
  for (auto op : llvm::make_early_inc_range(kernel.block().getOps<SubOp>())) rewrite.apply(op);
}

}  // namespace kdagen::kda
