// SPDX-License-Identifier: Apache-2.0
#include "codegen/derive/passes.h"

#include "codegen/analysis/anchors.h"
#include "codegen/derive/derive.h"
#include "codegen/import/from_graph.h"
#include "kdagen/error.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace kdagen {
namespace {

using Step = OwningOpRef<ModuleOp> (*)(kda::KernelOp, const CompileOptions&);

/// Replaces the module's kernel by what `step` makes of it.
struct KernelStepPass : PassWrapper<KernelStepPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KernelStepPass)
  std::string name;
  Step step;
  ListOption<std::string> settings{*this, "set", llvm::cl::desc("KEY=VALUE as with kdagen --set; tap=NAME is --tap")};

  KernelStepPass(std::string name, Step step) : name(std::move(name)), step(step) {}
  KernelStepPass(const KernelStepPass& other) : PassWrapper(other), name(other.name), step(other.step) {}
  llvm::StringRef getArgument() const override { return name; }
  llvm::StringRef getDescription() const override { return "see codegen/derive/derive.h"; }

  CompileOptions options() {
    std::map<std::string, std::string> values;
    std::vector<std::string> taps;
    for (const std::string& setting : settings) {
      auto [key, value] = llvm::StringRef(setting).split('=');
      if (key == "tap")
        taps.push_back(value.str());
      else
        values[key.str()] = value.str();
    }
    CompileOptions result = take_compile_options(values);
    if (!values.empty()) throw UsageError("option " + values.begin()->first + " is not the compiler's");
    result.taps = taps;
    return result;
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    try {
      kda::KernelOp kernel = only_kernel(module);
      auto result = step(kernel, options());
      kernel->erase();
      module.getBody()->getOperations().splice(module.getBody()->end(), result->getBody()->getOperations());
    } catch (const Error& error) {  // no exception may cross MLIR
      module.emitError() << error.what();
      signalPassFailure();
    }
  }
};

/// What import ends with.
struct PlaceAnchorsPass : PassWrapper<PlaceAnchorsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlaceAnchorsPass)
  llvm::StringRef getArgument() const override { return "kda-place-anchors"; }
  llvm::StringRef getDescription() const override { return "see codegen/analysis/anchors.h"; }
  void runOnOperation() override {
    try {
      for (auto kernel : getOperation().getOps<kda::KernelOp>()) place_anchors(kernel);
    } catch (const Error& error) {  // no exception may cross MLIR
      getOperation().emitError() << error.what();
      signalPassFailure();
    }
  }
};

struct CleanUpPass : PassWrapper<CleanUpPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CleanUpPass)
  llvm::StringRef getArgument() const override { return "kda-clean-up"; }
  llvm::StringRef getDescription() const override { return "resolves detach, merges equal ops, drops dead ones"; }
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<kda::KernelOp>()) {
      resolve_detach(kernel);
      clean_up(kernel);
    }
  }
};

}  // namespace

void register_derive_passes() {
  registerPass([] { return std::make_unique<KernelStepPass>("kda-derive", derive); });
  registerPass([] { return std::make_unique<KernelStepPass>("kda-prepare-forward", prepare_forward); });
  registerPass([] { return std::make_unique<PlaceAnchorsPass>(); });
  registerPass([] { return std::make_unique<CleanUpPass>(); });
}

}  // namespace kdagen
