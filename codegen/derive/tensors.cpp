// SPDX-License-Identifier: Apache-2.0
#include "codegen/derive/tensors.h"

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/analysis/ranges.h"
#include "codegen/derive/derive.h"
#include "kdagen/error.h"

using namespace mlir;

namespace kdagen {
namespace {
using kda::AxisRole;
using kda::Builder;
using kda::KernelOp;

SmallVector<std::string> names_of(llvm::ArrayRef<StringAttr> axes) {
  return llvm::map_to_vector(axes, [](StringAttr axis) { return axis.getValue().str(); });
}

Value read(Builder& build, const std::string& name, llvm::StringRef role, Type storage,
           llvm::ArrayRef<std::string> axes, FloatAttr lower = {}, FloatAttr upper = {}) {
  return build.raw().create<kda::InputOp>(build.location(), build.make_type(axes), name, role, storage, lower, upper,
                                          false, FloatAttr());
}

/// The inner values that have a name of the user's.
std::map<std::string, Value> named_values(KernelOp kernel) {
  std::map<std::string, Value> values;
  for (Operation& op : kernel.block())
    if (op.getNumResults() == 1 && !llvm::isa<kda::InputOp, kda::ConstantOp>(op))
      if (auto name = kda::user_name(op.getResult(0))) values.emplace(*name, op.getResult(0));
  return values;
}

std::string listed(const std::map<std::string, Value>& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names.empty() ? "there is none" : fmt::format("there are {}", fmt::join(names, ", "));
}

Value named_value(const std::map<std::string, Value>& values, const std::string& option, const std::string& name) {
  auto it = values.find(name);
  if (it == values.end())
    throw UsageError(fmt::format("{}: no inner value is called '{}'; {}", option, name, listed(values)));
  if (kda::type_of(it->second).getElement().isInteger(1))
    throw UsageError(fmt::format("{}: '{}' is a truth value; name a number", option, name));
  return it->second;
}

kda::OutputOp output_called(KernelOp kernel, const std::string& name) {
  for (auto output : kernel.block().getOps<kda::OutputOp>())
    if (output.getTensor() == name) return output;
  return {};
}

/// The value's axes and those that every tensor of a tile has.
kda::ValueType tile_type(Builder& build, Value value) {
  auto axes = names_of(kda::type_of(value).getAxes());
  for (AxisRole role : {AxisRole::Batch, AxisRole::Chunk})
    if (auto axis = build.kernel().axis(role)) axes.push_back(axis.getName().getValue().str());
  return build.make_type(axes);
}

/// Makes a change after which the operands of an exponent no longer show how they hang together (total - cumsum of one
/// value, where one is read from memory): what was proven of the exponent stays with it.
void keep_exponent_ranges(KernelOp kernel, llvm::function_ref<void()> change) {
  llvm::DenseMap<Value, Interval> proven;
  Ranges before;
  for (Operation& op : kernel.block())
    if (llvm::isa<kda::ExpOp, kda::Exp2Op>(op)) proven[op.getOperand(0)] = before.of(op.getOperand(0));
  change();
  Ranges after;
  for (const auto& [argument, range] : proven) {
    Interval seen = after.of(argument);
    if (seen.lo < range.lo || seen.hi > range.hi)
      argument.getDefiningOp()->setAttr(proven_range_attribute,
                                        DenseF64ArrayAttr::get(kernel.getContext(), {range.lo, range.hi}));
  }
}

}  // namespace

Type storage_of(OpBuilder& builder, const std::string& dtype) {
  if (dtype == "bf16") return builder.getBF16Type();
  if (dtype == "fp16") return builder.getF16Type();
  return builder.getF32Type();
}

Value cotangent_input(Builder& build, kda::OutputOp output, const CompileOptions& options) {
  OpBuilder& raw = build.raw();
  std::string name = "d" + output.getTensor().str();
  Location place =
      llvm::isa<NameLoc>(output.getLoc()) ? llvm::cast<NameLoc>(output.getLoc()).getChildLoc() : output.getLoc();
  build.set_location(kda::named(place, name));
  SmallVector<std::string> axes, row_axes;
  for (Attribute axis : output.getAxes()) axes.push_back(llvm::cast<StringAttr>(axis).getValue().str());
  for (const auto& axis : axes)
    if (build.kernel().axis(axis).getRole() != AxisRole::Feature) row_axes.push_back(axis);
  Upstream upstream = options.upstream_for(output.getTensor().str());
  Type storage = upstream == Upstream::f32    ? Type(raw.getF32Type())
                 : upstream == Upstream::bf16 ? Type(raw.getBF16Type())
                                              : raw.getF16Type();
  Value cotangent = read(build, name, "cotangent", storage, axes);
  if (upstream == Upstream::fp16row) {
    build.set_location(kda::named(place, name + "_exp"));
    Value exponent = read(build, name + "_exp", "cotangent", raw.getI8Type(), row_axes, raw.getF64FloatAttr(-128),
                          raw.getF64FloatAttr(127));
    build.set_location(place);  // the product is no tensor: it has no name
    cotangent = build.mul(cotangent, build.exp2(exponent));
  }
  build.set_location(place);
  if (auto coefficient = output.getUnitCoefficient())
    cotangent = build.mul(cotangent, kda::Scalar::of(coefficient->convertToDouble(), output.getUnitSymbolsAttr()));
  return cotangent;
}

void write_tensor(Builder& build, Value value, const std::string& name, llvm::StringRef role, Type storage,
                  kda::ValueType type) {
  OpBuilder& raw = build.raw();
  SmallVector<StringRef> axes = llvm::map_to_vector(type.getAxes(), [](StringAttr axis) { return axis.getValue(); });
  raw.create<kda::OutputOp>(build.location(), value, name, role, storage, raw.getStrArrayAttr(axes), FloatAttr(),
                            ArrayAttr(), 0, StringAttr(), StringAttr());
}

SmallVector<Value> find_saved(KernelOp kernel, const std::vector<std::string>& names) {
  auto values = named_values(kernel);
  SmallVector<Value> saved;
  for (const auto& name : names) {
    Value value = named_value(values, "option save=" + name, name);
    if (kda::section_of(value) != kda::Section::Tile)
      throw UsageError(
          fmt::format("option save={}: the value depends on parameters only and is evaluated once; nothing is "
                      "gained by saving it",
                      name));
    auto output = output_called(kernel, name);
    if (output && !llvm::isa<FloatType>(output.getStorage()))
      throw UsageError(fmt::format(
          "option save={}: it is an anchor, which the backward makes again with the same bits; leave it out", name));
    if (output && !(output.getStorage().isF32() && output.getAnchor() == 0 && !output.getAnchorKind() &&
                    !output.getAnchorTensor()))
      throw UsageError(
          fmt::format("option save={}: the output of that name is stored in another form; set out.{}=f32, or name "
                      "an inner value",
                      name, name));
    saved.push_back(value);
  }
  return saved;
}

void write_residual(KernelOp kernel, Value value) {
  std::string name = *kda::user_name(value);
  if (output_called(kernel, name)) return;
  OpBuilder raw = OpBuilder::atBlockEnd(&kernel.block());
  Builder build(raw, value.getLoc());
  write_tensor(build, value, name, "residual", raw.getF32Type(), kda::type_of(value));
}

void read_residual(KernelOp kernel, Value value) {
  OpBuilder raw(value.getDefiningOp());
  Builder build(raw, value.getLoc());
  Interval range = Ranges().of(value);  // what is proven of the value holds for the number read
  auto bound = [&](double end) { return std::isfinite(end) ? raw.getF64FloatAttr(end) : FloatAttr(); };
  Value residual = read(build, *kda::user_name(value), "residual", raw.getF32Type(),
                        names_of(kda::type_of(value).getAxes()), bound(range.lo), bound(range.hi));
  // Where a maximum is attained is asked of the values that it was taken of: they need not be the saved ones.
  auto reads = [&](OpOperand& use) {
    return !(value.getDefiningOp<kda::MaxReduceOp>() && llvm::isa<kda::EqualOp>(use.getOwner()));
  };
  keep_exponent_ranges(kernel, [&] { value.replaceUsesWithIf(residual, reads); });
}

void add_taps(KernelOp kernel, const std::vector<std::string>& names) {
  auto values = named_values(kernel);
  for (const auto& name : names) {
    Value value = named_value(values, "--tap " + name, name);
    if (kda::section_of(value) == kda::Section::Epilogue)
      throw UsageError("--tap " + name + ": the value is a sum over all tiles; read the gradient that it is part of");
    if (auto output = output_called(kernel, name))
      throw UsageError("--tap " + name + ": it is written anyway, as the output of that name");
    OpBuilder raw = OpBuilder::atBlockEnd(&kernel.block());
    Builder build(raw, value.getLoc());
    write_tensor(build, value, name, "tap", raw.getF32Type(), tile_type(build, value));
  }
}

void check_output_names(KernelOp forward, const CompileOptions& options) {
  std::vector<std::string> outputs;
  for (auto output : forward.block().getOps<kda::OutputOp>()) outputs.push_back(output.getTensor().str());
  for (const auto& [name, upstream] : options.upstream_of)
    if (!llvm::is_contained(outputs, name))
      throw UsageError(
          fmt::format("option upstream.{}: the spec has no such output; it has {}", name, fmt::join(outputs, ", ")));
}

void check_tensor_names(KernelOp kernel) {
  std::map<std::string, Operation*> tensors;
  for (Operation& op : kernel.block()) {
    std::string name;
    if (auto input = llvm::dyn_cast<kda::InputOp>(op)) name = input.getTensor().str();
    if (auto output = llvm::dyn_cast<kda::OutputOp>(op)) name = output.getTensor().str();
    if (name.empty()) continue;
    auto [it, added] = tensors.emplace(name, &op);
    if (!added)
      throw SpecError(
          fmt::format("{}: error: the backward would have two tensors called '{}' (the other one from {}); rename a "
                      "tensor of the spec",
                      kda::spec_line(op.getLoc()), name, kda::spec_line(it->second->getLoc())));
  }
}

}  // namespace kdagen
