// SPDX-License-Identifier: Apache-2.0
// Runs passes over kda IR in text form; for the lit tests.
#include "codegen/derive/passes.h"
#include "codegen/ir/Dialect.h"
#include "codegen/rewrite/passes.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  registry.insert<kdagen::kda::KdaDialect>();
  kdagen::register_derive_passes();
  kdagen::kda::register_rewrite_passes();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "kdagen-opt\n", registry));
}
