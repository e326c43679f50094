// SPDX-License-Identifier: Apache-2.0
#include "codegen/explain/formulas.h"

#include <fmt/format.h>

#include "codegen/explain/notation.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace kdagen {
namespace {
using kda::KernelOp;

constexpr size_t width = 110;         // of a line, the tag included
constexpr size_t short_formula = 16;  // folded into every use
constexpr size_t long_formula = 160;  // gets a name of its own rather than being folded any further

class Lines {
 public:
  Lines(KernelOp kernel, Notation notation) : kernel_(kernel), notation_(notation) {}

  std::string write() {
    for (Operation& op : kernel_.block()) {
      if (auto output = llvm::dyn_cast<kda::OutputOp>(op))
        write_output(output);
      else if (op.getNumResults() == 1)
        write_value(&op);
    }
    return text_;
  }

 private:
  Formula formula_of(Operation* op) {
    SmallVector<Formula> operands;
    for (Value operand : op->getOperands()) operands.push_back(known_.lookup(operand));
    return op_formula(op, operands, notation_);
  }

  void write_value(Operation* op) {
    Value value = op->getResult(0);
    Formula formula = formula_of(op);
    if (llvm::isa<kda::InputOp, kda::ConstantOp, kda::BroadcastOp>(op)) {
      known_[value] = formula;
      return;
    }
    auto name = kda::user_name(value);
    bool only_output = value.hasOneUse() && llvm::isa<kda::OutputOp>(*value.user_begin());
    bool fold = !name && (value.hasOneUse() || formula.text.size() <= short_formula) &&
                (only_output || formula.text.size() <= long_formula);
    if (fold) {
      known_[value] = formula;
      return;
    }
    if (!name) name = fmt::format("_{}", ++invented_);
    known_[value] = name_formula(*name, notation_);
    auto output = output_of_same_name(value, *name);
    line(known_[value].text, formula.text, output ? storage_note(output) : "", value.getLoc());
  }

  /// An output that stores the value under its own name needs no line of its own.
  kda::OutputOp output_of_same_name(Value value, const std::string& name) {
    for (Operation* user : value.getUsers())
      if (auto output = llvm::dyn_cast<kda::OutputOp>(user); output && output.getTensor() == name) return output;
    return {};
  }

  std::string storage_note(kda::OutputOp output) {
    std::string storage = output.getStorage().isBF16() ? "bf16" : output.getStorage().isF16() ? "fp16" : "f32";
    std::string role =
        output.getRole() == "output" || output.getRole() == "gradient" ? "" : output.getRole().str() + ", ";
    std::replace(role.begin(), role.end(), '_', ' ');
    std::string anchor = output.getAnchor() == 0 ? "" : fmt::format(", times 2^{}", output.getAnchor());
    return role + storage + anchor;
  }

  void write_output(kda::OutputOp output) {
    std::string name = output.getTensor().str();
    if (kda::user_name(output.getValue()) == name && !llvm::isa<kda::InputOp>(output.getValue().getDefiningOp()))
      return;
    line(name_formula(name, notation_).text, known_.lookup(output.getValue()).text, storage_note(output),
         output.getLoc());
  }

  void line(const std::string& name, const std::string& formula, const std::string& note, Location location) {
    if (notation_ == Notation::latex) {
      text_ += (text_.empty() ? "" : "\\\\\n") + name + " &= " + formula;
      return;
    }
    std::string left = name + " = " + formula + (note.empty() ? "" : "    -> " + note);
    unsigned number = kda::spec_line_number(location);
    std::string tag = number ? fmt::format("[spec:{}]", number) : "";
    if (!tag.empty())
      left += std::string(left.size() + tag.size() + 2 <= width ? width - left.size() - tag.size() : 2, ' ') + tag;
    text_ += left + "\n";
  }

  KernelOp kernel_;
  Notation notation_;
  llvm::DenseMap<Value, Formula> known_;
  int invented_ = 0;
  std::string text_;
};

Formula short_form(Value value, int depth) {
  Operation* op = value.getDefiningOp();
  if (auto name = kda::user_name(value); name && !llvm::isa<kda::InputOp>(op))
    return name_formula(*name, Notation::text);
  if (depth == 0 && op->getNumOperands() > 0 && !llvm::isa<kda::BroadcastOp>(op)) return {"..."};
  SmallVector<Formula> operands;
  for (Value operand : op->getOperands())
    operands.push_back(short_form(operand, llvm::isa<kda::BroadcastOp>(op) ? depth : depth - 1));
  return op_formula(op, operands, Notation::text);
}

}  // namespace

std::string formulas(KernelOp kernel, Notation notation) {
  std::string lines = Lines(kernel, notation).write();
  return notation == Notation::latex ? "\\begin{aligned}\n" + lines + "\n\\end{aligned}\n" : lines;
}

std::string formula(Value value) { return short_form(value, 4).text; }

std::string definition(Value value) {
  Operation* op = value.getDefiningOp();
  SmallVector<Formula> operands;
  for (Value operand : op->getOperands()) operands.push_back(short_form(operand, 3));
  return op_formula(op, operands, Notation::text).text;
}

}  // namespace kdagen
