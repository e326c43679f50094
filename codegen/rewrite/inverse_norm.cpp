// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/inverse_norm.h"

#include <cmath>

#include "codegen/rewrite/values.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

struct Norm {
  SumOp squares;
  Value factor, eps;  ///< null: 1 and 0
};

/// A constant and what stands beside it; nulls if there is none.
std::pair<Value, Value> beside_constant(Operation* op) {
  Value a = op->getOperand(0), b = op->getOperand(1);
  if (constant_scalar(b)) return {a, b};
  return constant_scalar(a) ? std::pair(b, a) : std::pair(Value(), Value());
}

bool within(Value constant, double low, double high) {
  double value = constant_scalar(constant)->value();
  return low <= value && value <= high;
}

std::optional<Norm> norm_under(RsqrtOp op) {
  Norm norm;
  Value inside = op.getX();
  if (auto sum = inside.getDefiningOp<AddOp>()) std::tie(inside, norm.eps) = beside_constant(sum);
  if (!inside) return std::nullopt;
  if (auto product = inside.getDefiningOp<MulOp>()) std::tie(inside, norm.factor) = beside_constant(product);
  if (!inside) return std::nullopt;
  norm.squares = inside.getDefiningOp<SumOp>();
  if (!norm.squares || norm.squares.getOver().size() != 1) return std::nullopt;
  auto square = norm.squares.getX().getDefiningOp<MulOp>();
  if (!square || square.getA() != square.getB()) return std::nullopt;
  if (!has_role(square.getA(), AxisRole::Feature) || has_role(norm.squares.getResult(), AxisRole::Feature))
    return std::nullopt;
  if (norm.factor && !within(norm.factor, 0x1p-40, 1)) return std::nullopt;
  if (norm.eps && !within(norm.eps, 0, 1)) return std::nullopt;
  return norm;
}

bool may_overflow(Norm norm, const RewriteOptions& options) {
  return !options.magnitude || !(options.magnitude(norm.squares.getResult()) < 0x1p127);
}

}  // namespace

void inverse_norm(KernelOp kernel, const RewriteOptions& options, RewriteReport& report) {
  IRRewriter rewriter(kernel.getContext());
  for (auto op : llvm::make_early_inc_range(kernel.block().getOps<RsqrtOp>())) {
    if (section_of(op.getResult()) != Section::Tile) continue;
    auto norm = norm_under(op);
    if (!norm || !may_overflow(*norm, options)) continue;
    rewriter.setInsertionPoint(op);
    Builder build(rewriter, unnamed(op.getLoc()));
    Value x = norm->squares.getX().getDefiningOp<MulOp>().getA();
    Value factor = norm->factor ? norm->factor : build.constant(1.0), eps = norm->eps ? norm->eps : build.constant(0.0);
    auto inverse = rewriter.create<InverseNormOp>(op.getLoc(), op.getType(), x, factor, eps, norm->squares.getOver());
    report.fired("inverse-norm", op.getLoc());
    rewriter.replaceOp(op, inverse.getResult());
  }
}

}  // namespace kdagen::kda
