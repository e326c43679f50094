// SPDX-License-Identifier: Apache-2.0
#include <kdagen/error.h>

#include "codegen/evaluator/evaluator.h"

namespace kdagen::evaluator {
namespace {

std::string dtype_of(mlir::Type type) {
  if (type.isBF16()) return "bf16";
  if (type.isF16()) return "fp16";
  if (type.isInteger(8)) return "i8";
  if (type.isInteger(32)) return "i32";
  return "f32";
}

/// Fills axes and shape from the kernel's axes that the tensor has.
template <class HasAxis>
void place(TensorInfo& info, kda::KernelOp kernel, const Instance& instance, HasAxis has_axis) {
  bool rows = false, tiles = false;
  for (mlir::Attribute attribute : kernel.getAxes()) {
    auto axis = llvm::cast<kda::AxisAttr>(attribute);
    if (!has_axis(axis.getName().getValue())) continue;
    kda::AxisRole role = axis.getRole();
    if (role == kda::AxisRole::Batch || role == kda::AxisRole::Chunk) {
      tiles = true;
      continue;
    }
    info.axes.push_back(axis.getName().str());
    if (role == kda::AxisRole::Rows) rows = true;
    if (role == kda::AxisRole::Head) info.shape.push_back(instance.heads);
    if (role == kda::AxisRole::Feature) info.shape.push_back(axis.getExtent());
  }
  info.per_chunk = tiles && (!rows || info.every > 0);
  if (info.every > 0)
    info.shape.insert(info.shape.begin(),
                      {instance.capacity(kernel.chunk()), (kernel.chunk() + info.every - 1) / info.every});
  else if (rows)
    info.shape.insert(info.shape.begin(), instance.rows());
  else if (tiles)
    info.shape.insert(info.shape.begin(), instance.capacity(kernel.chunk()));
}

}  // namespace

std::vector<TensorInfo> tensors_of(kda::KernelOp kernel, const Instance& instance) {
  std::vector<TensorInfo> inputs, outputs;
  for (mlir::Operation& op : kernel.block()) {
    if (auto input = llvm::dyn_cast<kda::InputOp>(op)) {
      TensorInfo info{input.getTensor().str(), input.getRole().str(), dtype_of(input.getStorage()), {}, {}};
      info.optional = input.getOptional();
      place(info, kernel, instance,
            [&](llvm::StringRef axis) { return kda::type_of(input.getResult()).hasAxis(axis); });
      inputs.push_back(std::move(info));
    } else if (auto output = llvm::dyn_cast<kda::OutputOp>(op)) {
      TensorInfo info{output.getTensor().str(), output.getRole().str(), dtype_of(output.getStorage()), {}, {}};
      info.is_output = true;
      info.every = int64_t(output.getEvery());
      if (auto anchor = output.getAnchorTensor()) info.anchor_tensor = anchor->str();
      info.anchor_sign = int64_t(output.getAnchorSign());
      place(info, kernel, instance, [&](llvm::StringRef axis) {
        return llvm::any_of(output.getAxes(), [&](auto name) { return llvm::cast<mlir::StringAttr>(name) == axis; });
      });
      outputs.push_back(std::move(info));
    }
  }
  inputs.insert(inputs.end(), outputs.begin(), outputs.end());
  return inputs;
}

}  // namespace kdagen::evaluator
