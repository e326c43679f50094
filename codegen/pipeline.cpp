// SPDX-License-Identifier: Apache-2.0
#include "codegen/pipeline.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codegen/analysis/anchors.h"
#include "codegen/derive/derive.h"
#include "codegen/diagnostics.h"
#include "codegen/import/from_graph.h"
#include "kdagen/error.h"

using namespace mlir;

namespace kdagen {
namespace {
/// auto: fixed point where an exponent is anchored by an integer, which asks for exact exponents; elsewhere float sums,
/// because the integers take a twentieth of the speed of a backward (docs/design/fixed-point.md, measured).
ScanKind scan_kind(ScanKind asked, kda::KernelOp kernel) {
  auto anchored = [](kda::OutputOp output) { return output.getAnchor() != 0 || output.getAnchorTensor(); };
  bool any = llvm::any_of(kernel.block().getOps<kda::OutputOp>(), anchored);
  return asked == ScanKind::automatic && !any ? ScanKind::floating : asked;
}

struct StepInfo {
  Stage stage;
  std::string_view name;
};

// The steps, in order. After `rewritten` come schedule (codegen/schedule: thread maps, phases, barriers) and emit
// (codegen/emit: CUDA text and manifest), which work on their own program, not on an MLIR module.
constexpr StepInfo steps[] = {
    {Stage::spec, "spec"},            // the graph as the DSL wrote it (JSON)
    {Stage::kda, "kda"},              // import: the forward in kda IR, axes named, constants symbolic, anchors chosen
    {Stage::derived, "derived"},      // fwd: residuals written; bwd: reverse accumulation; both: detach resolved
    {Stage::rewritten, "rewritten"},  // numerics: projection, factored decay, deferred constants, ... (asks the ranges)
};

CompileOptions without_taps(CompileOptions options) {
  options.taps.clear();
  return options;
}

}  // namespace

std::string_view stage_name(Stage stage) { return steps[size_t(stage)].name; }
std::string_view direction_name(Direction direction) { return direction == Direction::fwd ? "fwd" : "bwd"; }

Compilation::Compilation(std::string graph, Direction direction, CompileOptions options)
    : graph_(std::move(graph)),
      direction_(direction),
      options_(std::move(options)),
      context_(std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED)),
      modules_(std::size(steps)) {}

std::string Compilation::spec_hash() const { return fmt::format("{:016x}", XXH3_64bits(graph_.data(), graph_.size())); }

OwningOpRef<ModuleOp> Compilation::run_step(Stage stage) {
  switch (stage) {
    case Stage::spec:
      break;
    case Stage::kda: {
      auto imported = import_graph(graph_, *context_);
      place_anchors(only_kernel(*imported));
      return imported;
    }
    case Stage::derived:
      return direction_ == Direction::fwd ? prepare_forward(kernel(Stage::kda), options_)
                                          : derive(kernel(Stage::kda), options_);
    case Stage::rewritten: {
      OwningOpRef<ModuleOp> result = module(Stage::derived).clone();
      kda::RewriteOptions how;
      how.rounded_operands = options_.operands != Operands::exact;
      OwningOpRef<ModuleOp> forward;  // tells what is stored how
      if (direction_ == Direction::bwd) {
        forward = prepare_forward(kernel(Stage::kda), without_taps(options_));
        how.forward = only_kernel(*forward);
      }
      how.scan = scan_kind(options_.scan, kernel(Stage::kda));
      how.saved = options_.save;
      how.magnitude = [](Value value) { return Ranges().of(value).magnitude(); };
      how.proven_exponent = [](Value argument) {
        return Ranges().proven_exponent(argument);
      };  // values come and go: no memory
      rewrites_ = kda::rewrite(*result, how);
      return result;
    }
  }
  throw KdagenBug("this stage has no module");
}

ModuleOp Compilation::module(Stage stage) {
  auto& known = modules_[size_t(stage)];
  if (!known) {
    auto result = run_step(stage);
    verify_after(*result, stage_name(stage));
    known = std::move(result);
  }
  return *known;
}

kda::KernelOp Compilation::kernel(Stage stage) { return only_kernel(module(stage)); }

std::string Compilation::text(Stage stage, bool locations) {
  return stage == Stage::spec ? graph_ : module_text(module(stage), locations);
}

const Ranges& Compilation::ranges() {
  if (!ranges_) ranges_ = analyse(kernel(Stage::derived));
  return *ranges_;
}

void Compilation::require_ranges() { require_proven_ranges(kernel(Stage::derived)); }

const kda::RewriteReport& Compilation::rewrites() {
  module(Stage::rewritten);
  return rewrites_;
}

bool Compilation::rounded_operands() {
  if (options_.operands == Operands::exact) return false;
  for (auto output : kernel(Stage::kda).block().getOps<kda::OutputOp>())
    if (llvm::isa<FloatType>(output.getStorage()) && !output.getStorage().isF32()) return true;
  return false;
}

}  // namespace kdagen
