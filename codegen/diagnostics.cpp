// SPDX-License-Identifier: Apache-2.0
#include "codegen/diagnostics.h"

#include "codegen/ir/Dialect.h"
#include "kdagen/error.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace kdagen {
namespace {

/// Collects the errors reported while it lives.
class CollectedErrors {
 public:
  explicit CollectedErrors(MLIRContext& context)
      : handler_(&context, [this](Diagnostic& diagnostic) {
          if (diagnostic.getSeverity() != DiagnosticSeverity::Error) return success();
          if (!text_.empty()) text_ += "; ";
          if (auto line = kda::spec_line(diagnostic.getLocation()); !line.empty()) text_ += line + ": ";
          text_ += diagnostic.str();
          return success();
        }) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  ScopedDiagnosticHandler handler_;
};

}  // namespace

void verify_after(Operation* op, std::string_view step) {
  CollectedErrors errors(*op->getContext());
  if (failed(verify(op))) throw KdagenBug("after " + std::string(step) + ": " + errors.text());
}

OwningOpRef<ModuleOp> parse_module(std::string_view text, MLIRContext& context) {
  context.getOrLoadDialect<kda::KdaDialect>();
  CollectedErrors errors(context);
  auto module = parseSourceString<ModuleOp>(llvm::StringRef(text.data(), text.size()), &context);
  if (!module) throw UsageError("the kda text does not parse: " + errors.text());
  return module;
}

std::string module_text(Operation* op, bool locations) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  if (locations) flags.enableDebugInfo(true, true);
  op->print(stream, flags);
  return text;
}

}  // namespace kdagen
