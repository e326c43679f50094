// SPDX-License-Identifier: Apache-2.0
// The way of a program through the compiler, step by step: read pipeline.cpp first.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/analysis/ranges.h"
#include "codegen/ir/Dialect.h"
#include "codegen/options.h"
#include "codegen/rewrite/rewrite.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace kdagen {

enum class Direction { fwd, bwd };
/// The program after each step, in order. `kda` is always the forward as imported.
enum class Stage { spec, kda, derived, rewritten };

std::string_view stage_name(Stage stage);
std::string_view direction_name(Direction direction);

/// One pass of one spec under one set of options. A stage is computed when first asked for and kept, so that checks can
/// compare stages. Not thread-safe; every Compilation has an MLIR context of its own.
class Compilation {
 public:
  /// `graph`: the spec's JSON (docs/architecture.md section 2). Nothing is compiled yet.
  Compilation(std::string graph, Direction direction, CompileOptions options);

  Direction direction() const { return direction_; }
  const CompileOptions& options() const { return options_; }
  const std::string& graph() const { return graph_; }
  /// 16 hexadecimal digits over the graph's bytes.
  std::string spec_hash() const;

  /// The program after a step, verified. Kernels of different stages are different ops. Throws SpecError, UsageError,
  /// or KdagenBug naming the step. Stage::spec has no module: use graph().
  mlir::ModuleOp module(Stage stage);
  /// The only kernel of that module.
  kda::KernelOp kernel(Stage stage);
  /// The stage as text: JSON for spec, kda IR for the others.
  std::string text(Stage stage, bool locations = false);

  /// Ranges of the derived kernel (before rewriting); the rewrites and the refusal ask the same analysis.
  const Ranges& ranges();
  /// Throws SpecError if an exponent of this pass is not proven (design: "Ranges"). Steps past `rewritten` call it.
  void require_ranges();
  /// What the rewrites did (runs them if need be).
  const kda::RewriteReport& rewrites();
  /// Whether cotangents of exponents are formed from stored, rounded numbers (option operands, and an output narrower
  /// than f32).
  bool rounded_operands();

 private:
  mlir::OwningOpRef<mlir::ModuleOp> run_step(Stage stage);

  std::string graph_;
  Direction direction_;
  CompileOptions options_;
  std::unique_ptr<mlir::MLIRContext> context_;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules_;  // by stage
  std::optional<Ranges> ranges_;
  kda::RewriteReport rewrites_;
};

}  // namespace kdagen
