// SPDX-License-Identifier: Apache-2.0
#include "tools/execute/interface.h"

#include <kdagen/error.h>

#include "codegen/evaluator/evaluator.h"
#include "runtime/problem.h"

namespace kdagen {
namespace {

runtime::AxisRole manifest_role(kda::AxisRole role) {
  switch (role) {
    case kda::AxisRole::Batch:
      return runtime::AxisRole::batch;
    case kda::AxisRole::Chunk:
      return runtime::AxisRole::chunk;
    case kda::AxisRole::Rows:
      return runtime::AxisRole::rows;
    case kda::AxisRole::Head:
    case kda::AxisRole::Group:
      return runtime::AxisRole::head;
    case kda::AxisRole::Feature:
      return runtime::AxisRole::feature;
  }
  throw KdagenBug("an axis without a role");
}

runtime::TensorRole tensor_role(const std::string& name) {
  using Role = runtime::TensorRole;
  for (Role role : {Role::input, Role::param, Role::cotangent, Role::output, Role::gradient, Role::param_gradient,
                    Role::residual, Role::tap})
    if (runtime::name_of(role) == name) return role;
  throw KdagenBug("unknown tensor role " + name);
}

runtime::Layout layout_of(const runtime::Manifest& manifest, const runtime::TensorInfo& tensor, bool per_chunk,
                          const CompileOptions& options) {
  if (!per_chunk && !runtime::is_row_tensor(manifest, tensor)) return runtime::Layout::param;
  if (tensor.role == runtime::TensorRole::cotangent && options.upstream_layout == UpstreamLayout::tile)
    return runtime::Layout::tile;
  return options.layout == Layout::htd ? runtime::Layout::htd : runtime::Layout::bthd;
}

}  // namespace

runtime::Manifest interface_of(kda::KernelOp kernel, const CompileOptions& options) {
  runtime::Manifest manifest;
  manifest.spec = kernel.getSpec().str();
  manifest.pass = kernel.getDirection().str();
  manifest.kernel = manifest.spec + "_" + manifest.pass;
  manifest.chunk = static_cast<int>(kernel.chunk());
  for (mlir::Attribute attribute : kernel.getAxes()) {
    const auto axis = llvm::cast<kda::AxisAttr>(attribute);
    manifest.axes.push_back({axis.getName().str(), manifest_role(axis.getRole())});
    if (axis.getRole() == kda::AxisRole::Feature) manifest.dim = static_cast<int>(axis.getExtent());
  }
  for (const evaluator::TensorInfo& info : evaluator::tensors_of(kernel, {})) {
    runtime::TensorInfo tensor;
    tensor.name = info.name;
    tensor.direction = info.is_output ? runtime::Direction::out : runtime::Direction::in;
    tensor.role = tensor_role(info.role);
    tensor.dtype = runtime::dtype_from_name(info.dtype).value();
    tensor.axes = info.axes;
    tensor.optional = info.optional;
    tensor.subchunk_rows = static_cast<int>(info.every);
    tensor.anchor_tensor = info.anchor_tensor;
    tensor.anchor_sign = static_cast<int>(info.anchor_sign);
    tensor.layout = layout_of(manifest, tensor, info.per_chunk, options);
    manifest.tensors.push_back(std::move(tensor));
  }
  manifest.arguments.push_back({"cu_seqlens", runtime::ArgumentKind::cu_seqlens, "", ""});
  return manifest;
}

}  // namespace kdagen
