// SPDX-License-Identifier: Apache-2.0
// Verifiers: no op may be ill-axed.
#include "codegen/ir/Dialect.h"
#include "llvm/ADT/StringSet.h"
#include "mlir/IR/OpImplementation.h"

#define GET_OP_CLASSES
#include "codegen/ir/KdaOps.cpp.inc"

using namespace mlir;

namespace kdagen::kda {
namespace {

/// The axes of `types` in the kernel's order; failure if one is unknown to the kernel.
FailureOr<SmallVector<StringAttr>> ordered_union(Operation* op, ArrayRef<ValueType> types) {
  KernelOp kernel = kernel_of(op);
  if (!kernel) return op->emitOpError("stands outside a kda.kernel");
  SmallVector<StringAttr> axes;
  for (Attribute attribute : kernel.getAxes()) {
    auto name = llvm::cast<AxisAttr>(attribute).getName();
    if (llvm::any_of(types, [&](ValueType type) { return type.hasAxis(name.getValue()); })) axes.push_back(name);
  }
  for (ValueType type : types)
    for (StringAttr axis : type.getAxes())
      if (!kernel.axis(axis.getValue()))
        return op->emitOpError("uses axis '") << axis.getValue() << "', which the kernel lacks";
  return axes;
}

LogicalResult verify_without(Operation* op, ValueType operand, ValueType result, ArrayRef<StringRef> removed) {
  SmallVector<StringAttr> expected;
  for (StringRef axis : removed)
    if (!operand.hasAxis(axis)) return op->emitOpError("goes over axis '") << axis << "', which its operand lacks";
  for (StringAttr axis : operand.getAxes())
    if (!llvm::is_contained(removed, axis.getValue())) expected.push_back(axis);
  if (ArrayRef<StringAttr>(expected) != result.getAxes()) return op->emitOpError("must keep the operand's other axes");
  bool fixed = llvm::isa<FixedType>(operand.getElement()) || llvm::isa<FixedType>(result.getElement());
  if (fixed && operand.getElement() != result.getElement())
    return op->emitOpError("must keep the operand's fixed-point type");
  return success();
}

LogicalResult verify_over_rows(Operation* op, StringRef over) {
  auto axis = kernel_of(op).axis(over);
  if (!axis || axis.getRole() != AxisRole::Rows)
    return op->emitOpError("goes over '") << over << "', which is not the row axis";
  return success();
}
}  // namespace

static bool is_fixed(ValueType type) { return llvm::isa<FixedType>(type.getElement()); }

/// Fixed-point values are spread, negated, added and subtracted; they end as exponents or as floats.
static LogicalResult verify_elements(Operation* op, ArrayRef<ValueType> operands, ValueType result) {
  if (llvm::isa<ToFixedOp, FromFixedOp>(op)) {
    ValueType fixed = llvm::isa<ToFixedOp>(op) ? result : operands[0];
    ValueType floating = llvm::isa<ToFixedOp>(op) ? operands[0] : result;
    if (is_fixed(fixed) && floating.getElement().isF32()) return success();
    return op->emitOpError("converts between f32 and fixed-point values");
  }
  if (!is_fixed(result) && llvm::none_of(operands, is_fixed)) return success();
  if (llvm::isa<Exp2Op>(op) && result.getElement().isF32()) return success();
  if (!llvm::isa<NegOp, AddOp, SubOp, SelectOp, RintOp>(op)) return op->emitOpError("takes no fixed-point values");
  if (llvm::isa<SelectOp>(op)) operands = operands.drop_front();  // the condition
  if (llvm::all_of(operands, [&](ValueType type) { return type.getElement() == result.getElement(); }))
    return success();
  return op->emitOpError("mixes fixed-point formats");
}

LogicalResult verify_union_axes(Operation* op) {
  SmallVector<ValueType> types;
  for (Type type : op->getOperandTypes()) types.push_back(llvm::cast<ValueType>(type));
  auto axes = ordered_union(op, types);
  if (failed(axes)) return failure();
  auto result = llvm::cast<ValueType>(op->getResult(0).getType());
  if (result.getAxes() != ArrayRef<StringAttr>(*axes))
    return op->emitOpError("must have the union of its operands' axes");
  return verify_elements(op, types, result);
}

/// Passes look up the axes of values and outputs without asking whether the kernel has them.
static LogicalResult verify_known_axes(KernelOp kernel, Operation& op) {
  SmallVector<StringAttr> used;
  for (Type type : op.getResultTypes())
    if (auto value = llvm::dyn_cast<ValueType>(type)) llvm::append_range(used, value.getAxes());
  if (auto output = llvm::dyn_cast<OutputOp>(op))
    for (Attribute axis : output.getAxes()) used.push_back(llvm::cast<StringAttr>(axis));
  for (StringAttr axis : used)
    if (!kernel.axis(axis.getValue()))
      return op.emitOpError("uses axis '") << axis.getValue() << "', which the kernel lacks";
  return success();
}

LogicalResult KernelOp::verify() {
  llvm::StringSet<> names;
  for (Attribute attribute : getAxes()) {
    auto axis = llvm::dyn_cast<AxisAttr>(attribute);
    if (!axis) return emitOpError("axes must be #kda.axis");
    if (!names.insert(axis.getName().getValue()).second) return emitOpError("has two axes called ") << axis.getName();
  }
  for (Block& block : getBody())
    for (Operation& op : block)
      if (failed(verify_known_axes(*this, op))) return failure();
  return success();
}

AxisAttr KernelOp::axis(StringRef name) {
  for (Attribute attribute : getAxes())
    if (auto axis = llvm::cast<AxisAttr>(attribute); axis.getName().getValue() == name) return axis;
  return {};
}

AxisAttr KernelOp::axis(AxisRole role) {
  for (Attribute attribute : getAxes())
    if (auto axis = llvm::cast<AxisAttr>(attribute); axis.getRole() == role) return axis;
  return {};
}

LogicalResult OutputOp::verify() {
  if (static_cast<int64_t>(getEvery()) < 0) return emitOpError("needs sub-chunks of at least one row");
  AxisAttr rows = kernel_of(getOperation()).axis(AxisRole::Rows);
  bool of_rows = rows && llvm::is_contained(getAxes(), rows.getName());
  if (getEvery() > 0 && !of_rows) return emitOpError("writes a row of each sub-chunk, but its tensor has no rows");
  for (StringAttr axis : type_of(getValue()).getAxes())
    if (!llvm::is_contained(getAxes(), axis))
      return emitOpError("has no axis ") << axis << ", along which its value varies";
  return success();
}

static LogicalResult verify_reduce(Operation* op, ValueType operand, ValueType result, ArrayAttr over) {
  SmallVector<StringRef> removed;
  for (Attribute axis : over) removed.push_back(llvm::cast<StringAttr>(axis).getValue());
  if (removed.empty()) return op->emitOpError("must go over at least one axis");
  return verify_without(op, operand, result, removed);
}
LogicalResult SumOp::verify() { return verify_reduce(*this, type_of(getX()), type_of(getResult()), getOver()); }
LogicalResult MaxReduceOp::verify() { return verify_reduce(*this, type_of(getX()), type_of(getResult()), getOver()); }
LogicalResult InverseNormOp::verify() { return verify_reduce(*this, type_of(getX()), type_of(getResult()), getOver()); }

LogicalResult ScanOp::verify() {
  if (getX().getType() != getResult().getType()) return emitOpError("must keep its operand's type");
  if (!type_of(getX()).hasAxis(getOver())) return emitOpError("needs an operand with rows");
  return verify_over_rows(*this, getOver());
}
LogicalResult ShiftOp::verify() {
  if (getX().getType() != getResult().getType()) return emitOpError("must keep its operand's type");
  if (!type_of(getX()).hasAxis(getOver())) return emitOpError("needs an operand with rows");
  return verify_over_rows(*this, getOver());
}
LogicalResult BoundaryOp::verify() {
  if (getX().getType() != getResult().getType()) return emitOpError("must keep its operand's type");
  if (!type_of(getX()).hasAxis(getOver())) return emitOpError("needs an operand with rows");
  if (getEvery() < 1) return emitOpError("needs sub-chunks of at least one row");
  return verify_over_rows(*this, getOver());
}
LogicalResult LastOp::verify() {
  if (failed(verify_over_rows(*this, getOver()))) return failure();
  return verify_without(*this, type_of(getX()), type_of(getResult()), {getOver()});
}
LogicalResult AtLastOp::verify() {
  if (failed(verify_over_rows(*this, getOver()))) return failure();
  return verify_without(*this, type_of(getResult()), type_of(getX()), {getOver()});
}
LogicalResult BroadcastOp::verify() {
  if (type_of(getX()).getElement() != type_of(getResult()).getElement())
    return emitOpError("must keep the operand's element type");
  for (StringAttr axis : type_of(getX()).getAxes())
    if (!type_of(getResult()).hasAxis(axis.getValue())) return emitOpError("may not drop axis ") << axis;
  return success();
}

}  // namespace kdagen::kda
