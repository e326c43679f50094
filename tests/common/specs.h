// SPDX-License-Identifier: Apache-2.0
// Specs written in the test, as kda kernels.
#pragma once
#include <functional>
#include <map>
#include <string>

#include <kdagen/kdagen.h>

#include "codegen/derive/derive.h"
#include "codegen/import/from_graph.h"
#include "mlir/IR/MLIRContext.h"

namespace kdagen::testing {

using OptionTexts = std::map<std::string, std::string>;

/// The spec's forward as imported and its backward as derived, with options as given with --set.
class Derived {
 public:
  Derived(const std::function<Spec(const Options&)>& make, OptionTexts options = {},
          std::vector<std::string> taps = {}) {
    compile_options = take_compile_options(options);
    compile_options.taps = std::move(taps);
    forward_ = import_graph(make(Options(options)).graph(), context_);
    backward_ = derive(forward(), compile_options);
  }
  kda::KernelOp forward() { return only_kernel(*forward_); }
  kda::KernelOp backward() { return only_kernel(*backward_); }

  CompileOptions compile_options;

 private:
  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> forward_, backward_;
};

/// The input or output of that name; null if there is none.
inline kda::InputOp input_called(kda::KernelOp kernel, llvm::StringRef name) {
  for (auto input : kernel.block().getOps<kda::InputOp>())
    if (input.getTensor() == name) return input;
  return {};
}
inline kda::OutputOp output_called(kda::KernelOp kernel, llvm::StringRef name) {
  for (auto output : kernel.block().getOps<kda::OutputOp>())
    if (output.getTensor() == name) return output;
  return {};
}
/// Number of ops of a kind.
template <typename OpTy>
int count(kda::KernelOp kernel) {
  auto ops = kernel.block().getOps<OpTy>();
  return int(std::distance(ops.begin(), ops.end()));
}
/// "b,n,t,h,d"
inline std::string axes_of(mlir::Value value) {
  std::string text;
  for (auto axis : kda::type_of(value).getAxes()) text += (text.empty() ? "" : ",") + axis.getValue().str();
  return text;
}

}  // namespace kdagen::testing
