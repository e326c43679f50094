// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/normalise.h"

#include <cmath>

#include "codegen/ir/Builder.h"
#include "codegen/ir/FixedPoint.h"
#include "codegen/rewrite/values.h"
#include "codegen/schedule/contract.h"
#include "codegen/schedule/homes.h"
#include "codegen/schedule/nan_terms.h"
#include "codegen/schedule/normal_arguments.h"
#include "kdagen/error.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace kdagen::kda;

namespace kdagen::schedule {
namespace {

/// e = 2^(-|z| log2e), in (0, 1]: the one exponential of sigmoid, its derivative and softplus.
Value decaying_exponential(kda::Builder& build, Value z) {
  return build.exp2(build.mul(build.neg(build.pointwise<AbsOp>({z})), Scalar::ln2().inverse()));
}

/// sigmoid(z)*c in fixed point: whole - (c*e/(1+e) - rest) for z >= 0, c*e/(1+e) below.
Value from_small_side(kda::Builder& build, ToFixedOp op, const ScaledSigmoid& parts) {
  Value e = decaying_exponential(build, parts.z);
  Value side = build.mul(e, build.pointwise<RcpOp>({build.add(build.constant(1.0), e)}));
  OpBuilder& raw = build.raw();
  Type type = op.getResult().getType();
  Value non_negative = build.compare<LessEqualOp>({build.constant(0.0), parts.z});
  const int fraction_bits = int(fixed_type(op.getResult()).getFractionBits());
  const double rest = rest_of_constant(parts.scalar.value(), fraction_bits);
  Value product = build.mul(side, parts.factor);
  if (rest != 0)
    product = raw.create<FmaOp>(op.getLoc(), product.getType(), side, parts.factor,
                                build.select(non_negative, build.constant(-rest), build.constant(0.0)));
  auto small = raw.create<ToFixedOp>(op.getLoc(), type, product, op.getLimit());
  // e/(1+e) <= 1/2, far inside a limit of more; a gate that is proven smaller has a smaller one, which roundings may
  // pass.
  if (std::ldexp(std::fabs(parts.scalar.value()), fraction_bits) < 1.5 * double(op.getLimit()))
    small->setAttr(never_saturates_attribute, raw.getUnitAttr());
  auto constant_type = kda::ValueType::get(op.getContext(), {}, fixed_type(op.getResult()));
  Value whole = raw.create<ConstantOp>(op.getLoc(), constant_type, raw.getF64FloatAttr(parts.scalar.value()),
                                       raw.getArrayAttr({}));
  Value large = raw.create<SubOp>(op.getLoc(), type, whole, small.getResult());
  Location place = op.getX().hasOneUse() ? op.getX().getLoc() : op.getLoc();  // the user's name, if the float goes
  return raw.create<SelectOp>(place, type, non_negative, large, small.getResult());
}

Value expand(kda::Builder& build, Operation* op) {
  if (auto sigmoid = dyn_cast<SigmoidOp>(op)) {
    Value z = sigmoid.getX(), e = decaying_exponential(build, z);
    Value r = build.pointwise<RcpOp>({build.add(build.constant(1.0), e)});
    Value non_negative = build.compare<LessEqualOp>({build.constant(0.0), z});
    return build.select(non_negative, r, build.mul(e, r));
  }
  if (auto gradient = dyn_cast<SigmoidGradOp>(op)) {
    Value e = decaying_exponential(build, gradient.getX());
    Value r = build.pointwise<RcpOp>({build.add(build.constant(1.0), e)});
    return build.mul(build.mul(e, r), r);
  }
  if (auto softplus = dyn_cast<SoftplusOp>(op)) {
    Value z = softplus.getX();
    Value positive = build.pointwise<ReluOp>({z});
    return build.add(positive, build.pointwise<Log1pOp>({decaying_exponential(build, z)}));
  }
  return {};
}

/// sum over {d, t} -> sum over t of sum over d; likewise max_reduce. Sums over tiles are left whole.
template <typename OpTy>
Value split(kda::Builder& build, OpTy op, KernelOp kernel) {
  auto rows = kernel.axis(AxisRole::Rows), feature = kernel.axis(AxisRole::Feature),
       chunk = kernel.axis(AxisRole::Chunk);
  if (lists(op.getOver(), chunk) || !lists(op.getOver(), rows) || !lists(op.getOver(), feature)) return {};
  std::string row = rows.getName().str(), column = feature.getName().str();
  if constexpr (std::is_same_v<OpTy, SumOp>) return build.sum(build.sum(op.getX(), {column}), {row});
  return build.max_reduce(build.max_reduce(op.getX(), {column}), {row});
}

void complete_outputs(KernelOp kernel) {
  OpBuilder raw(kernel.getContext());
  for (auto output : llvm::make_early_inc_range(kernel.block().getOps<OutputOp>())) {
    raw.setInsertionPoint(output);
    kda::Builder build(raw, output.getValue().getLoc());
    SmallVector<std::string> axes;
    for (Attribute axis : output.getAxes()) axes.push_back(cast<StringAttr>(axis).str());
    auto rows = kernel.axis(AxisRole::Rows);
    bool per_tile = rows && llvm::is_contained(axes, rows.getName().str());
    for (StringAttr axis : type_of(output.getValue()).getAxes()) axes.push_back(axis.str());
    if (per_tile)
      for (auto role : {AxisRole::Batch, AxisRole::Chunk}) axes.push_back(kernel.axis(role).getName().str());
    auto type = build.make_type(axes);
    if (type != output.getValue().getType())
      output.getValueMutable().assign(raw.create<BroadcastOp>(output.getLoc(), type, output.getValue()));
  }
}
}  // namespace

void normalise(ModuleOp module) {
  for (auto kernel : module.getOps<KernelOp>()) {
    OpBuilder raw(kernel.getContext());
    for (auto conversion : llvm::make_early_inc_range(kernel.block().getOps<ToFixedOp>())) {  // while sigmoids stand
      auto parts = small_side(conversion);
      if (!parts) continue;
      raw.setInsertionPoint(conversion);
      kda::Builder build(raw, conversion.getLoc());
      conversion.getResult().replaceAllUsesWith(from_small_side(build, conversion, *parts));
      conversion.erase();
    }
    for (Operation& op : llvm::make_early_inc_range(kernel.block())) {
      raw.setInsertionPoint(&op);
      kda::Builder build(raw, unnamed(op.getLoc()));  // the user's name is the result's alone
      Value replacement = expand(build, &op);
      if (auto sum = dyn_cast<SumOp>(op)) replacement = split(build, sum, kernel);
      if (auto max = dyn_cast<MaxReduceOp>(op)) replacement = split(build, max, kernel);
      if (auto detach = dyn_cast<DetachOp>(op)) replacement = detach.getX();
      if (!replacement) continue;
      if (replacement.getDefiningOp() && !isa<DetachOp>(op)) replacement.setLoc(op.getLoc());
      op.getResult(0).replaceAllUsesWith(replacement);
      op.erase();
    }
    complete_outputs(kernel);
  }
  PassManager passes(module.getContext());
  passes.addPass(createCSEPass());
  passes.addPass(createCanonicalizerPass());
  if (failed(passes.run(module))) throw KdagenBug("normalise: the verifier rejects the kernel");
  for (auto kernel : module.getOps<KernelOp>()) {
    contract_products(kernel);
    add_nan_terms(kernel);
    mark_normal_arguments(kernel);
  }
}

}  // namespace kdagen::schedule
