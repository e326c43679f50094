// SPDX-License-Identifier: Apache-2.0
#include "codegen/ir/Builder.h"

using namespace mlir;

namespace kdagen::kda {

KernelOp Builder::kernel() { return kernel_of(builder_.getInsertionBlock()->getParentOp()); }

ValueType Builder::make_type(llvm::ArrayRef<std::string> axes, bool truth_value) {
  SmallVector<StringAttr> ordered;
  for (Attribute attribute : kernel().getAxes()) {
    auto name = llvm::cast<AxisAttr>(attribute).getName();
    if (llvm::is_contained(axes, name.getValue().str())) ordered.push_back(name);
  }
  Type element = truth_value ? Type(builder_.getI1Type()) : Type(builder_.getF32Type());
  return ValueType::get(context(), ordered, element);
}

ValueType Builder::union_type(ValueRange operands, bool truth_value) {
  SmallVector<std::string> axes;
  for (Value operand : operands)
    for (StringAttr axis : type_of(operand).getAxes()) axes.push_back(axis.getValue().str());
  ValueType type = make_type(axes, truth_value);
  for (Value operand : operands)
    if (auto element = fixed_type(operand); element && !truth_value)
      return ValueType::get(context(), type.getAxes(), element);
  return type;
}

static SmallVector<std::string> axes_without(Value x, llvm::ArrayRef<std::string> removed) {
  SmallVector<std::string> axes;
  for (StringAttr axis : type_of(x).getAxes())
    if (!llvm::is_contained(removed, axis.getValue().str())) axes.push_back(axis.getValue().str());
  return axes;
}

static ArrayAttr string_array(OpBuilder& builder, llvm::ArrayRef<std::string> names) {
  SmallVector<StringRef> refs(names.begin(), names.end());
  return builder.getStrArrayAttr(refs);
}

Value Builder::constant(const Scalar& scalar) {
  return builder_.create<ConstantOp>(location_, make_type({}), builder_.getF64FloatAttr(scalar.coefficient),
                                     scalar.symbols_attr(context()));
}
Value Builder::clamp(Value x, double lower, double upper) {
  return builder_.create<ClampOp>(location_, union_type({x}, false), x, builder_.getF64FloatAttr(lower),
                                  builder_.getF64FloatAttr(upper));
}
Value Builder::round(Value x, Type storage) {
  return builder_.create<RoundOp>(location_, union_type({x}, false), x, TypeAttr::get(storage));
}
Value Builder::sum(Value x, llvm::ArrayRef<std::string> over) {
  return builder_.create<SumOp>(location_, make_type(axes_without(x, over)), x, string_array(builder_, over));
}
Value Builder::max_reduce(Value x, llvm::ArrayRef<std::string> over) {
  return builder_.create<MaxReduceOp>(location_, make_type(axes_without(x, over)), x, string_array(builder_, over));
}
Value Builder::scan(Value x, StringRef over, bool exclusive, bool reverse) {
  return builder_.create<ScanOp>(location_, x.getType(), x, builder_.getStringAttr(over),
                                 builder_.getBoolAttr(exclusive), builder_.getBoolAttr(reverse));
}
Value Builder::last(Value x, StringRef over) {
  return builder_.create<LastOp>(location_, make_type(axes_without(x, {over.str()})), x, builder_.getStringAttr(over));
}
Value Builder::at_last(Value x, StringRef over) {
  auto axes = axes_without(x, {});
  axes.push_back(over.str());
  return builder_.create<AtLastOp>(location_, make_type(axes), x, builder_.getStringAttr(over));
}
Value Builder::shift(Value x, StringRef over, int64_t amount, double fill) {
  return builder_.create<ShiftOp>(location_, x.getType(), x, builder_.getStringAttr(over),
                                  builder_.getI64IntegerAttr(amount), builder_.getF64FloatAttr(fill));
}
Value Builder::boundary(Value x, StringRef over, int64_t every) {
  return builder_.create<BoundaryOp>(location_, x.getType(), x, builder_.getStringAttr(over),
                                     builder_.getI64IntegerAttr(every));
}
Value Builder::index(StringRef over) {
  SmallVector<std::string> axes = {over.str()};
  if (kernel().axis(over).getRole() == AxisRole::Rows)
    for (AxisRole role : {AxisRole::Batch, AxisRole::Chunk, AxisRole::Head})
      if (auto axis = kernel().axis(role)) axes.push_back(axis.getName().getValue().str());
  return builder_.create<IndexOp>(location_, make_type(axes), builder_.getStringAttr(over));
}
Value Builder::broadcast_like(Value x, Value like) {
  auto type = union_type({x, like}, type_of(x).getElement().isInteger(1));
  return type == x.getType() ? x : builder_.create<BroadcastOp>(location_, type, x).getResult();
}
Value Builder::sum_to(Value x, Value like) {
  auto missing = [&](llvm::ArrayRef<AxisRole> roles) {
    SmallVector<std::string> over;
    for (AxisRole role : roles)
      if (has_role(x, role) && !has_role(like, role)) over.push_back(kernel().axis(role).getName().getValue().str());
    return over;
  };
  auto reduce = [&](llvm::ArrayRef<AxisRole> roles) {
    if (auto over = missing(roles); !over.empty()) x = sum(x, over);
  };
  bool over_tiles = !missing({AxisRole::Batch, AxisRole::Chunk}).empty();
  if (!over_tiles) reduce({AxisRole::Feature});
  reduce({AxisRole::Rows});
  reduce({AxisRole::Batch, AxisRole::Chunk});
  reduce({AxisRole::Feature});
  reduce({AxisRole::Group});
  reduce({AxisRole::Head});
  return x;
}

}  // namespace kdagen::kda
