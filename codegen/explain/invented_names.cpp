// SPDX-License-Identifier: Apache-2.0
#include "codegen/explain/invented_names.h"

#include <cctype>

#include "codegen/ir/Scalar.h"

using namespace mlir;

namespace kdagen {
namespace {
using namespace kda;

constexpr size_t longest = 23;  // and the underscore in front

bool is_constant(Value value) { return constant_scalar(value).has_value(); }

bool is_negative(const Scalar& scalar) { return scalar.coefficient < 0; }

/// "row_sum", "total" (of a chunk's rows), "sum" (over tiles or heads).
std::string sum_word(SumOp sum) {
  std::string word = "sum";
  for (Attribute name : sum.getOver()) {
    AxisRole role = kernel_of(sum.getOperation()).axis(llvm::cast<StringAttr>(name).getValue()).getRole();
    word = role == AxisRole::Feature ? "row_sum" : role == AxisRole::Rows ? "total" : "sum";
  }
  return word;
}

/// The op's own word: exp2, rsqrt, prefix, suffix, ...
std::string word_of(Operation* op) {
  if (keeps_finite(op)) return "finite";
  if (auto scan = llvm::dyn_cast<ScanOp>(op)) return scan.getReverse() ? "suffix" : "prefix";
  if (auto sum = llvm::dyn_cast<SumOp>(op)) return sum_word(sum);
  return op->getName().stripDialect().str();
}

/// The operand that an op with a constant works on; null if there is no constant or nothing else.
Value beside_constant(Operation* op) {
  if (!llvm::isa<MulOp, AddOp, SubOp, DivOp>(op)) return {};
  Value a = op->getOperand(0), b = op->getOperand(1);
  return is_constant(a) == is_constant(b) ? Value() : is_constant(a) ? b : a;
}

}  // namespace

std::optional<std::string> given_name(Value value) {
  if (auto input = value.getDefiningOp<InputOp>()) return input.getTensor().str();
  return user_name(value);
}

std::string InventedNames::of(Value value) {
  std::string text = label(value);
  if (text.empty() || std::isupper(static_cast<unsigned char>(text[0])) ||
      std::isdigit(static_cast<unsigned char>(text[0])))
    text = word_of(value.getDefiningOp()) + (text.empty() ? "" : "_") + text;  // _A... is the implementation's
  return "_" + text;
}

std::string InventedNames::label(Value value) {
  if (auto name = given_name(value)) return *name;
  if (auto known = labels_.find(value); known != labels_.end()) return known->second;
  std::string text = new_label(value.getDefiningOp());
  return labels_[value] = text;
}

std::string InventedNames::new_label(Operation* op) {
  if (op->getNumOperands() == 0) return word_of(op);
  if (keeps_finite(op)) return shortened("finite_" + operand_label(op->getOperand(0)), op);
  if (beside_constant(op))
    return shortened((llvm::isa<MulOp, DivOp>(op) ? "scaled_" : "offset_") + operand_label(op->getResult(0)), op);
  if (llvm::isa<NegOp, AbsOp, BroadcastOp>(op)) return shortened(operand_label(op->getResult(0)), op);
  if (llvm::isa<MulOp>(op)) return joined(op, "", "times_");
  if (llvm::isa<AddOp>(op)) return joined(op, "plus_", "plus_");
  if (llvm::isa<SubOp>(op)) return joined(op, "minus_", "minus_");
  if (llvm::isa<DivOp>(op)) return joined(op, "over_", "over_");
  return shortened(word_of(op) + "_" + operand_label(op->getOperand(0)), op);
}

std::string InventedNames::shortened(const std::string& text, Operation* op) {
  if (text.size() <= longest) return text;
  return (word_of(op) + "_" + root(op->getOperand(0))).substr(0, longest);
}

std::string InventedNames::joined(Operation* op, const std::string& word, const std::string& word_of_roots) {
  Value a = op->getOperand(0), b = op->getOperand(1);
  std::string text = label(a) + "_" + word + label(b);
  return text.size() <= longest ? text : shortened(root(a) + "_" + word_of_roots + root(b), op);
}

/// Signs are kept, constants are not: -x*log2e is minus_x.
std::string InventedNames::operand_label(Value value) {
  Operation* op = value.getDefiningOp();
  if (given_name(value)) return label(value);
  if (auto neg = llvm::dyn_cast<NegOp>(op)) return "minus_" + operand_label(neg.getX());
  if (auto abs = llvm::dyn_cast<AbsOp>(op)) return "abs_" + operand_label(abs.getX());
  if (auto broadcast = llvm::dyn_cast<BroadcastOp>(op)) return operand_label(broadcast.getX());
  if (Value inner = beside_constant(op)) {
    auto scalar = constant_scalar(op->getOperand(inner == op->getOperand(0) ? 1 : 0));
    bool minus =
        llvm::isa<MulOp, DivOp>(op) ? is_negative(*scalar) : llvm::isa<SubOp>(op) && inner == op->getOperand(1);
    return (minus ? "minus_" : "") + operand_label(inner);
  }
  return label(value);
}

std::string InventedNames::root(Value value) {
  while (!given_name(value) && value.getDefiningOp()->getNumOperands() > 0) {
    Value inner = beside_constant(value.getDefiningOp());
    value = inner ? inner : value.getDefiningOp()->getOperand(0);
  }
  auto name = given_name(value);
  return name ? *name : word_of(value.getDefiningOp());
}

}  // namespace kdagen
