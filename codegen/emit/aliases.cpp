// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/aliases.h"

#include <fmt/format.h>

#include "codegen/emit/names.h"

using namespace kdagen::kda;
using namespace kdagen::schedule;

namespace kdagen::emit {

InputOp alias_of(const Program& program, OutputOp output) {
  auto input = output.getValue().getDefiningOp<InputOp>();
  if (!input || section_of(output.getValue()) != Section::Tile || input.getOptional()) return nullptr;
  if (input.getStorage() != output.getStorage() || output.getAnchor() != 0 || output.getAnchorTensor() ||
      output.getEvery() > 0 || output.getUnitSymbols())
    return nullptr;
  if (program.tile_major.count(input.getTensor().str())) return nullptr;
  auto axes = type_of(input.getResult()).getAxes();
  if (axes.size() != output.getAxes().size()) return nullptr;
  for (auto [a, b] : llvm::zip(axes, output.getAxes()))
    if (mlir::Attribute(a) != b) return nullptr;
  return input;
}

std::string unless_aliased(const Program& program, const Names& names, mlir::Operation* op) {
  auto output = mlir::dyn_cast<OutputOp>(op);
  auto input = mlir::dyn_cast<InputOp>(op);
  if (input) {
    if (!input.getResult().hasOneUse()) return "";
    output = mlir::dyn_cast<OutputOp>(*input.getResult().user_begin());
  }
  input = output ? alias_of(program, output) : InputOp();
  if (!input) return "";
  return fmt::format("arguments.{}.data != arguments.{}.data", names.tensor(output.getTensor().str()),
                     names.tensor(input.getTensor().str()));
}

}  // namespace kdagen::emit
