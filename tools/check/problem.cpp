// SPDX-License-Identifier: Apache-2.0
#include "tools/check/problem.h"

#include <algorithm>
#include <limits>

#include <kdagen/error.h>
#include <nlohmann/json.hpp>

namespace kdagen {
namespace {

using Json = nlohmann::json;

AxisRole axis_role(kda::KernelOp kernel, const std::string& axis) {
  for (mlir::Attribute attribute : kernel.getAxes()) {
    auto known = llvm::cast<kda::AxisAttr>(attribute);
    if (known.getName().getValue() != axis) continue;
    if (known.getRole() == kda::AxisRole::Rows) return AxisRole::rows;
    return known.getRole() == kda::AxisRole::Head ? AxisRole::head : AxisRole::feature;
  }
  throw KdagenBug("axis " + axis + " is not among the kernel's axes");
}

void set_bounds(const Json& graph, Declaration& declaration) {
  for (const Json& node : graph.at("nodes")) {
    const bool input = node.at("op") == "input" || node.at("op") == "param";
    if (!input || node.at("name") != declaration.name) continue;
    declaration.lower = node.value("lower", declaration.lower);
    declaration.upper = node.value("upper", declaration.upper);
  }
}

Settings settings_of(const Json& graph) {
  Settings settings;
  for (const Json& option : graph.at("options")) {
    const Json& value = option.at("value");
    settings.values[option.at("name")] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return settings;
}

}  // namespace

Declaration declaration_of(kda::KernelOp kernel, const evaluator::TensorInfo& info) {
  Declaration result;
  result.name = info.name;
  result.dtype = info.dtype;
  result.is_param = info.role == "param";
  result.optional = info.optional;
  result.every = info.every;
  if (info.per_chunk) result.axes.push_back(AxisRole::chunk);
  for (const std::string& axis : info.axes) result.axes.push_back(axis_role(kernel, axis));
  return result;
}

std::map<std::string, std::string> cotangent_storage(const Problem& problem, const CompileOptions& options) {
  std::map<std::string, std::string> result;
  for (const Declaration& output : problem.outputs) {
    const Upstream storage = options.upstream_for(output.name);
    result[output.name] = storage == Upstream::f32 ? "f32" : storage == Upstream::bf16 ? "bf16" : "fp16row";
  }
  return result;
}

Problem problem_of(const std::string& graph_text, kda::KernelOp forward, Shape shape) {
  const Json graph = Json::parse(graph_text);
  shape.chunk = graph.at("chunk");
  shape.dim = graph.at("dim");
  Problem problem;
  problem.spec = graph.at("name");
  problem.shape = shape;
  problem.options = settings_of(graph);
  for (const evaluator::TensorInfo& info : evaluator::tensors_of(forward, instance_of(shape))) {
    Declaration declaration = declaration_of(forward, info);
    if (!info.is_output) set_bounds(graph, declaration);
    (info.is_output ? problem.outputs : problem.inputs).push_back(declaration);
  }
  return problem;
}

evaluator::Instance instance_of(const Shape& shape) {
  return shape.packed ? evaluator::Instance::packed_row(shape.seqlens, shape.heads, shape.dead_rows)
                      : evaluator::Instance::fixed(shape.batch, shape.tokens(), shape.heads);
}

evaluator::Arrays arrays_of(const Tensors& tensors) {
  evaluator::Arrays arrays;
  for (const auto& [name, tensor] : tensors) arrays[name] = {tensor.values, tensor.shape};
  return arrays;
}

Tensors tensors_of(evaluator::Arrays arrays, kda::KernelOp kernel, const Shape& shape) {
  Tensors tensors;
  for (const evaluator::TensorInfo& info : evaluator::tensors_of(kernel, instance_of(shape))) {
    auto found = arrays.find(info.name);
    if (info.is_output && found != arrays.end())
      tensors[info.name] = {info.name, info.dtype, info.shape, std::move(found->second.values)};
  }
  return tensors;
}

void shrink_rows(const Declaration& declaration, const Shape& shape, HostTensor& tensor) {
  const bool row_of_features = declaration.has(AxisRole::rows) && declaration.has(AxisRole::feature);
  if (!row_of_features || declaration.lower > 0 || declaration.upper < 0) return;
  const int64_t width = static_cast<int64_t>(tensor.values.size()) / std::max<int64_t>(shape.rows(), 1);
  for (size_t i = 0; i < tensor.values.size(); ++i)
    if (static_cast<int64_t>(i) / width % 3 == 1) tensor.values[i] = round_to(tensor.values[i] * 0x1p-13, tensor.dtype);
}

void grow_rows(const Declaration& declaration, const Shape& shape, HostTensor& tensor) {
  if (tensor.dtype == "fp16" || declaration.upper < 0x1p70 || declaration.lower > -0x1p70) return;
  const int64_t width = static_cast<int64_t>(tensor.values.size()) / std::max<int64_t>(shape.rows(), 1);
  for (size_t i = 0; i < tensor.values.size(); ++i)
    if (static_cast<int64_t>(i) / width % 3 == 2) tensor.values[i] *= 0x1p66;
}

void poison_unread(const Declaration& declaration, const Shape& shape, HostTensor& tensor) {
  const bool rows = declaration.has(AxisRole::rows);
  if (!rows && !declaration.has(AxisRole::chunk)) return;
  const int64_t slots = rows ? shape.rows() : shape.capacity();
  const int64_t read = rows ? shape.rows() - shape.dead_rows : static_cast<int64_t>(shape.tiles().size());
  const int64_t width = slots ? static_cast<int64_t>(tensor.values.size()) / slots : 0;
  std::fill(tensor.values.begin() + read * width, tensor.values.end(), std::numeric_limits<double>::quiet_NaN());
}

}  // namespace kdagen
