// SPDX-License-Identifier: Apache-2.0
// A shipped spec, imported, with the problem its workload wants.
#pragma once
#include <map>
#include <string>

#include "codegen/import/from_graph.h"
#include "codegen/options.h"
#include "kdagen/registry.h"
#include "specs/workloads/workload.h"
#include "tests/common/kernels.h"

namespace kdagen::testing {

class ImportedSpec {
 public:
  /// `settings`: options of the spec and of the compiler.
  ImportedSpec(const std::string& name, std::map<std::string, std::string> settings)
      : name_(name), settings_(settings) {
    options = take_compile_options(settings);
    for (const RegisteredSpec& spec : registered_specs())
      if (spec.name == name) module_ = import_graph(spec_graph(spec, Options(settings)), context_);
    if (!module_) throw UsageError("no spec is called " + name);
  }
  kda::KernelOp forward() { return only_kernel(*module_); }

  /// The workload's view of this spec at a packed size.
  Problem problem(const evaluator::Instance& instance) {
    Problem result;
    result.spec = name_;
    result.options.values = settings_;
    Shape& shape = result.shape;
    shape.batch = instance.batch, shape.heads = instance.heads, shape.seqlens = instance.seqlens;
    shape.packed = instance.packed, shape.chunk = forward().chunk(), shape.dim = forward().dim();
    shape.dead_rows = instance.tokens;
    for (int64_t length : instance.seqlens) shape.dead_rows -= length;
    if (!instance.packed) shape.seqlens.resize(1), shape.dead_rows = 0;
    for (const auto& info : evaluator::tensors_of(forward(), instance)) {
      Declaration declaration{info.name, info.dtype, {}, info.role == "param"};
      for (const std::string& axis : info.axes) {
        kda::AxisRole role = forward().axis(axis).getRole();
        declaration.axes.push_back(role == kda::AxisRole::Rows   ? AxisRole::rows
                                   : role == kda::AxisRole::Head ? AxisRole::head
                                                                 : AxisRole::feature);
      }
      if (info.per_chunk) declaration.axes.insert(declaration.axes.begin(), AxisRole::chunk);
      (info.is_output ? result.outputs : result.inputs).push_back(declaration);
    }
    return result;
  }

  CompileOptions options;

 private:
  std::string name_;
  std::map<std::string, std::string> settings_;
  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

inline void add(evaluator::Arrays& arrays, const Tensors& tensors) {
  for (const auto& [name, tensor] : tensors) arrays[name] = {tensor.values, tensor.shape};
}

}  // namespace kdagen::testing
