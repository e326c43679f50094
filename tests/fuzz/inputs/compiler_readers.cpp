// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <stdexcept>

#include "codegen/backend.h"
#include "codegen/derive/passes.h"
#include "codegen/rewrite/passes.h"
#include "kdagen/error.h"
#include "kdagen/registry.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "tests/common/scratch.h"
#include "tests/fuzz/inputs/readers.h"

namespace kdagen::testing {
namespace {

std::string printed(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

/// kdagen-opt on the text, with one pass.
bool runs_pass(const std::string& text, const std::string& pass) {
  mlir::MLIRContext context;
  context.getOrLoadDialect<kda::KdaDialect>();
  const mlir::ScopedDiagnosticHandler silent(&context, [](mlir::Diagnostic&) { return mlir::success(); });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  mlir::PassManager passes(&context);
  return module && mlir::succeeded(mlir::parsePassPipeline(pass, passes)) && mlir::succeeded(passes.run(*module));
}

void register_passes() {
  static const bool once = [] {
    register_derive_passes();
    kda::register_rewrite_passes();
    return true;
  }();
  static_cast<void>(once);
}

bool accepts_ir(const std::string& bytes) {
  mlir::MLIRContext context;
  context.getOrLoadDialect<kda::KdaDialect>();
  const mlir::ScopedDiagnosticHandler silent(&context, [](mlir::Diagnostic&) { return mlir::success(); });
  const auto module = mlir::parseSourceString<mlir::ModuleOp>(bytes, &context);
  if (!module) return false;
  const std::string text = printed(*module);
  const auto again = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!again || printed(*again) != text) throw std::logic_error("IR does not read back");
  return true;
}

/// IR that the verifiers let through, in each pass alone.
bool accepts_ir_passes(const std::string& bytes) {
  if (!accepts_ir(bytes)) return false;
  register_passes();
  for (const char* pass :
       {"kda-derive", "kda-identities", "kda-stable-sigmoid", "kda-projection", "kda-complement-scan",
        "kda-factored-decay", "kda-deferred-constant", "kda-parameter-hoisting", "kda-finite-exponential",
        "kda-fixed-point-scan", "kda-inverse-norm", "kda-rounded-operand", "kda-shared-exponential", "kda-rewrite"})
    runs_pass(bytes, pass);
  return true;
}

std::vector<std::string> ir_seeds() {
  std::vector<std::string> seeds;
  for (const auto& item : std::filesystem::recursive_directory_iterator(KDAGEN_TESTS)) {
    if (item.path().extension() != ".mlir") continue;
    std::istringstream lines(slurp(item.path()));
    std::string text;
    for (std::string line; std::getline(lines, line);)
      if (line.find("// CHECK") == std::string::npos) text += line + '\n';
    seeds.push_back(text);
  }
  return seeds;
}

/// Both passes as far as the rewritten program, or with `text` to the emitted text.
bool compiles_graph(const std::string& bytes, bool text) {
  bool accepted = false;
  for (const Direction direction : {Direction::fwd, Direction::bwd}) try {
      Compilation compilation(bytes, direction, {});
      compilation.kernel(Stage::kda);
      accepted = true;
      compilation.kernel(Stage::rewritten);
      if (text) emit_kernel(compilation, "sm_90");
    } catch (const SpecError&) {
    } catch (const UsageError&) {
    }
  return accepted;
}

bool accepts_graph(const std::string& bytes) { return compiles_graph(bytes, false); }
bool accepts_graph_text(const std::string& bytes) { return compiles_graph(bytes, true); }

std::vector<std::string> graph_seeds() {
  std::vector<std::string> seeds;
  for (const RegisteredSpec& spec : registered_specs()) seeds.push_back(spec_graph(spec, Options()));
  return seeds;
}

}  // namespace

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all{{"ir", accepts_ir, ir_seeds, false, true},
                                       {"ir_passes", accepts_ir_passes, ir_seeds, false, true},
                                       {"graph_text", accepts_graph_text, graph_seeds, true},
                                       {"graph", accepts_graph, graph_seeds, true}};
  return all;
}

}  // namespace kdagen::testing
