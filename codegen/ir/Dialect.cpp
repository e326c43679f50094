// SPDX-License-Identifier: Apache-2.0
#include "codegen/ir/Dialect.h"

#include "codegen/ir/Builder.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/DialectImplementation.h"

#include "codegen/ir/KdaDialect.cpp.inc"
#include "codegen/ir/KdaEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "codegen/ir/KdaAttributes.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "codegen/ir/KdaInterfaces.cpp.inc"
#include "codegen/ir/KdaTypes.cpp.inc"

using namespace mlir;

namespace kdagen::kda {

void KdaDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "codegen/ir/KdaAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "codegen/ir/KdaTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "codegen/ir/KdaOps.cpp.inc"
      >();
}

// !kda.value<[b, n, t, h, d], f32>
Type ValueType::parse(AsmParser& parser) {
  SmallVector<StringAttr> axes;
  Type element;
  auto axis = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name)) return failure();
    axes.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  if (parser.parseLess() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, axis) || parser.parseComma() ||
      parser.parseType(element) || parser.parseGreater())
    return {};
  return ValueType::get(parser.getContext(), axes, element);
}

void ValueType::print(AsmPrinter& printer) const {
  printer << "<[";
  llvm::interleaveComma(getAxes(), printer.getStream(), [&](StringAttr axis) { printer.printKeywordOrString(axis); });
  printer << "], " << getElement() << ">";
}

bool ValueType::hasAxis(llvm::StringRef name) const {
  return llvm::any_of(getAxes(), [&](StringAttr axis) { return axis.getValue() == name; });
}

KernelOp kernel_of(Operation* op) {
  if (auto kernel = llvm::dyn_cast<KernelOp>(op)) return kernel;
  return op->getParentOfType<KernelOp>();
}
KernelOp kernel_of(Value value) {
  return value.getDefiningOp() ? kernel_of(value.getDefiningOp()) : kernel_of(value.getParentBlock()->getParentOp());
}

bool has_role(Value value, AxisRole role) {
  auto axis = kernel_of(value).axis(role);
  return axis && type_of(value).hasAxis(axis.getName().getValue());
}

std::optional<std::string> user_name(Value value) {
  if (auto name = llvm::dyn_cast<NameLoc>(value.getLoc())) return name.getName().str();
  return std::nullopt;
}

static FileLineColLoc file_location(Location location) {
  if (auto name = llvm::dyn_cast<NameLoc>(location)) return file_location(name.getChildLoc());
  if (auto fused = llvm::dyn_cast<FusedLoc>(location))
    return fused.getLocations().empty() ? FileLineColLoc() : file_location(fused.getLocations().front());
  return llvm::dyn_cast<FileLineColLoc>(location);
}

std::string spec_line(Location location) {
  auto file = file_location(location);
  return file ? file.getFilename().str() + ":" + std::to_string(file.getLine()) : "";
}

unsigned spec_line_number(Location location) {
  auto file = file_location(location);
  return file ? file.getLine() : 0;
}

Location named(Location location, llvm::StringRef name) {
  if (auto old = llvm::dyn_cast<NameLoc>(location)) location = old.getChildLoc();
  return NameLoc::get(StringAttr::get(location.getContext(), name), location);
}

namespace {
Section section_of(Value value, llvm::DenseMap<Value, Section>& known) {
  if (auto it = known.find(value); it != known.end()) return it->second;
  Section result = Section::Prologue;
  if (has_role(value, AxisRole::Batch) || has_role(value, AxisRole::Chunk) || has_role(value, AxisRole::Rows)) {
    result = Section::Tile;
  } else if (auto* op = value.getDefiningOp()) {
    for (Value operand : op->getOperands())
      if (section_of(operand, known) != Section::Prologue) result = Section::Epilogue;
  }
  return known[value] = result;
}
}  // namespace

Section section_of(Value value) {
  llvm::DenseMap<Value, Section> known;
  return section_of(value, known);
}

}  // namespace kdagen::kda
