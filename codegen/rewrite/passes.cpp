// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/passes.h"

#include "codegen/analysis/ranges.h"
#include "codegen/derive/derive.h"
#include "codegen/rewrite/complement_scan.h"
#include "codegen/rewrite/deferred_constant.h"
#include "codegen/rewrite/difference_of_sums.h"
#include "codegen/rewrite/factored_decay.h"
#include "codegen/rewrite/finite_exponential.h"
#include "codegen/rewrite/fixed_point_scan.h"
#include "codegen/rewrite/identities.h"
#include "codegen/rewrite/inverse_norm.h"
#include "codegen/rewrite/parameter_hoisting.h"
#include "codegen/rewrite/projection.h"
#include "codegen/rewrite/rewrite.h"
#include "codegen/rewrite/rounded_operand.h"
#include "codegen/rewrite/shared_exponential.h"
#include "codegen/rewrite/stable_sigmoid.h"
#include "codegen/rewrite/values.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

using KernelRewrite = void (*)(KernelOp, RewriteReport&);

/// One rewrite alone, between two rounds of sharing and removing.
struct SingleRewritePass : PassWrapper<SingleRewritePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SingleRewritePass)
  std::string name;
  KernelRewrite rewrite;

  SingleRewritePass(std::string name, KernelRewrite rewrite) : name(std::move(name)), rewrite(rewrite) {}
  SingleRewritePass(const SingleRewritePass& other) = default;
  llvm::StringRef getArgument() const override { return name; }
  llvm::StringRef getDescription() const override { return "one rewrite alone; see codegen/rewrite"; }

  void runOnOperation() override {
    RewriteReport report;
    for (KernelOp kernel : getOperation().getOps<KernelOp>()) {
      clean_up(kernel);
      rewrite(kernel, report);
      put_after_operands(kernel);
      clean_up(kernel);
    }
  }
};

/// The rewrites that need options. They find the forward in the module, and take the word of `proven` for ranges.
struct OptionedRewritePass : PassWrapper<OptionedRewritePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OptionedRewritePass)
  using Run = void (*)(ModuleOp, const RewriteOptions&);
  std::string name;
  Run run;
  Option<bool> rounded{*this, "rounded", llvm::cl::desc("operands=rounded")};
  Option<std::string> scan{*this, "scan", llvm::cl::desc("auto, float or fixed"), llvm::cl::init("auto")};
  ListOption<std::string> saved{*this, "saved", llvm::cl::desc("user names of saved values")};
  ListOption<std::string> proven{*this, "proven", llvm::cl::desc("user names of exponents taken as proven, or all")};

  OptionedRewritePass(std::string name, Run run) : name(std::move(name)), run(run) {}
  OptionedRewritePass(const OptionedRewritePass& other) : PassWrapper(other), name(other.name), run(other.run) {}
  llvm::StringRef getArgument() const override { return name; }
  llvm::StringRef getDescription() const override { return "see codegen/rewrite"; }

  void runOnOperation() override {
    RewriteOptions options;
    options.rounded_operands = rounded;
    options.scan = scan == "float" ? ScanKind::floating : scan == "fixed" ? ScanKind::fixed : ScanKind::automatic;
    options.saved = {saved.begin(), saved.end()};
    options.magnitude = [](Value value) { return Ranges().of(value).magnitude(); };
    for (KernelOp kernel : getOperation().getOps<KernelOp>())
      if (kernel.getDirection() == "fwd") options.forward = kernel;
    options.proven_exponent = [&](Value argument) {
      auto exponent = user_name(argument);
      return llvm::is_contained(proven, "all") || (exponent && llvm::is_contained(proven, *exponent));
    };
    run(getOperation(), options);
  }
};

using KernelRewriteWithOptions = void (*)(KernelOp, const RewriteOptions&, RewriteReport&);

template <KernelRewriteWithOptions rewrite>
void run_with_options(ModuleOp module, const RewriteOptions& options) {
  RewriteReport report;
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    clean_up(kernel);
    rewrite(kernel, options, report);
    put_after_operands(kernel);
    clean_up(kernel);
  }
}

/// All kernels are marked before one is lowered: a backward looks at its forward.
void fixed_point_scan(ModuleOp module, const RewriteOptions& options) {
  run_with_options<choose_fixed_point_scans>(module, options);
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    lower_fixed_point_scans(kernel, options);
    clean_up(kernel);
  }
}

void register_single(std::string name, KernelRewrite rewrite) {
  registerPass([=] { return std::make_unique<SingleRewritePass>(name, rewrite); });
}

void register_optioned(std::string name, OptionedRewritePass::Run run) {
  registerPass([=] { return std::make_unique<OptionedRewritePass>(name, run); });
}

}  // namespace

void register_rewrite_passes() {
  register_single("kda-identities", identities);
  register_single("kda-stable-sigmoid", stable_sigmoid);
  register_single("kda-projection", projection);
  register_single("kda-complement-scan", complement_scan);
  register_single("kda-factored-decay", factored_decay);
  register_single("kda-deferred-constant", deferred_constant);
  register_single("kda-parameter-hoisting", parameter_hoisting);
  register_single("kda-finite-exponential", finite_exponential);
  register_optioned("kda-fixed-point-scan", fixed_point_scan);
  register_optioned("kda-difference-of-sums", run_with_options<difference_of_sums>);
  register_optioned("kda-inverse-norm", run_with_options<inverse_norm>);
  register_optioned("kda-rounded-operand", run_with_options<rounded_operand>);
  register_optioned("kda-shared-exponential", run_with_options<shared_exponential>);
  register_optioned("kda-rewrite", [](ModuleOp module, const RewriteOptions& options) { rewrite(module, options); });
}

}  // namespace kdagen::kda
