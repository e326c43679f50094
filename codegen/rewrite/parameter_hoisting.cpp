// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/parameter_hoisting.h"

#include "codegen/rewrite/values.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

bool may_leave(Value a, SumOp sum) {
  return section_of(a) == Section::Prologue && llvm::none_of(sum.getOver(), [&](Attribute axis) {
           return type_of(a).hasAxis(llvm::cast<StringAttr>(axis).getValue());
         });
}

struct ParameterHoisting : OpRewritePattern<SumOp> {
  RewriteReport& report;
  ParameterHoisting(MLIRContext* context, RewriteReport& report) : OpRewritePattern(context), report(report) {}

  LogicalResult matchAndRewrite(SumOp sum, PatternRewriter& rewriter) const override {
    auto mul = sum.getX().getDefiningOp<MulOp>();
    if (!mul || !mul->hasOneUse() || !depends_on_cotangent(mul)) return failure();
    Value x = mul.getA(), a = mul.getB();
    if (!may_leave(a, sum)) std::swap(x, a);
    if (!may_leave(a, sum) || !same_axes(x, mul)) return failure();
    Builder build(rewriter, unnamed(sum.getLoc()));
    report.fired("parameter-hoisting", sum.getLoc());
    replace(rewriter, sum, build.mul(build.sum(x, axes_of(sum.getOver())), a));
    return success();
  }
};

}  // namespace

void parameter_hoisting(KernelOp kernel, RewriteReport& report) {
  RewritePatternSet patterns(kernel.getContext());
  patterns.add<ParameterHoisting>(kernel.getContext(), report);
  GreedyRewriteConfig config;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  (void)applyPatternsAndFoldGreedily(kernel, std::move(patterns), config);
}

}  // namespace kdagen::kda
