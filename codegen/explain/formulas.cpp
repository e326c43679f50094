// SPDX-License-Identifier: Apache-2.0
#include "codegen/explain/formulas.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/explain/invented_names.h"
#include "codegen/explain/notation.h"
#include "codegen/ir/Scalar.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace kdagen {
namespace {
using kda::KernelOp;

constexpr size_t width = 110;         // of a line, the tag included
constexpr size_t short_formula = 16;  // folded into every use
constexpr size_t long_formula = 160;  // gets a name of its own rather than being folded any further

/// `text` in pieces of at most `columns`, broken at spaces; all but the first are indented.
std::vector<std::string> wrapped(const std::string& text, size_t columns) {
  std::vector<std::string> pieces;
  for (size_t begin = 0; begin < text.size();) {
    const std::string indent = pieces.empty() ? "" : "    ";
    size_t room = columns - indent.size(), end = text.size();
    if (end - begin > room) {
      end = text.rfind(' ', begin + room);
      if (end == std::string::npos || end <= begin) end = std::min(text.find(' ', begin + 1), text.size());
    }
    pieces.push_back(indent + text.substr(begin, end - begin));
    begin = text.find_first_not_of(' ', end);
  }
  return pieces;
}

class Lines {
 public:
  /// `wrap`: no line is longer than `columns`.
  Lines(KernelOp kernel, Notation notation, size_t columns, bool wrap)
      : kernel_(kernel), notation_(notation), columns_(columns), wrap_(wrap) {}

  const std::vector<std::string>& write() {
    for (Operation& op : kernel_.block())
      if (op.getNumResults() == 1)
        if (auto name = given_name(op.getResult(0))) taken_.insert(*name);
    for (Operation& op : kernel_.block()) {
      if (auto output = llvm::dyn_cast<kda::OutputOp>(op))
        write_output(output);
      else if (op.getNumResults() == 1)
        write_value(&op);
    }
    return lines_;
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
    if (llvm::isa<kda::InputOp, kda::ConstantOp, kda::BroadcastOp, kda::ToFixedOp, kda::FromFixedOp>(op) ||
        kda::keeps_finite(op)) {
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
    if (!name) name = invented_name(value);
    known_[value] = name_formula(*name, notation_);
    auto output = output_of_same_name(value, *name);
    line(known_[value].text, formula.text, output ? storage_note(output) : "", value.getLoc());
  }

  std::string invented_name(Value value) {
    std::string base = invented_.of(value), name = base;
    for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
    return name;
  }

  /// An output that stores the value under its own name needs no line of its own.
  kda::OutputOp output_of_same_name(Value value, const std::string& name) {
    for (Operation* user : value.getUsers()) {
      if (auto output = llvm::dyn_cast<kda::OutputOp>(user); output && output.getTensor() == name) return output;
      if (llvm::isa<kda::FromFixedOp>(user))
        if (auto output = output_of_same_name(user->getResult(0), name)) return output;
    }
    return {};
  }

  std::string storage_note(kda::OutputOp output) {
    std::string storage = output.getStorage().isBF16()  ? "bf16"
                          : output.getStorage().isF16() ? "fp16"
                          : output.getStorage().isF32() ? "f32"
                                                        : "i32";
    std::string role =
        output.getRole() == "output" || output.getRole() == "gradient" ? "" : output.getRole().str() + ", ";
    std::replace(role.begin(), role.end(), '_', ' ');
    std::string anchor = output.getAnchor() == 0 ? "" : fmt::format(", times 2^{}", int64_t(output.getAnchor()));
    if (auto tensor = output.getAnchorTensor())
      anchor = fmt::format(", times 2^{}{}", int64_t(output.getAnchorSign()) < 0 ? "-" : "", tensor->str());
    if (output.getEvery() > 0) anchor = fmt::format(", a row of each {}", int64_t(output.getEvery()));
    return role + storage + anchor;
  }

  void write_output(kda::OutputOp output) {
    std::string name = output.getTensor().str();
    Value value = output.getValue();
    if (auto conversion = value.getDefiningOp<kda::FromFixedOp>()) value = conversion.getX();
    if (kda::user_name(value) == name && !llvm::isa<kda::InputOp>(value.getDefiningOp())) return;
    line(name_formula(name, notation_).text, known_.lookup(output.getValue()).text, storage_note(output),
         output.getLoc());
  }

  void line(const std::string& name, const std::string& formula, const std::string& note, Location location) {
    if (notation_ == Notation::latex) {
      lines_.push_back(name + " &= " + formula);
      return;
    }
    std::string left = name + " = " + formula + (note.empty() ? "" : "    -> " + note);
    unsigned number = kda::spec_line_number(location);
    std::string tag = number ? fmt::format("[spec:{}]", number) : "";
    size_t room = tag.empty() ? columns_ : columns_ - tag.size() - 2;
    for (const std::string& piece : wrap_ ? wrapped(left, room) : std::vector{left}) lines_.push_back(piece);
    std::string& last = lines_.back();
    if (!tag.empty()) last += std::string(last.size() <= room ? columns_ - last.size() - tag.size() : 2, ' ') + tag;
  }

  KernelOp kernel_;
  Notation notation_;
  size_t columns_;
  bool wrap_;
  llvm::DenseMap<Value, Formula> known_;
  InventedNames invented_;
  std::set<std::string> taken_;
  std::vector<std::string> lines_;
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
  Lines lines(kernel, notation, width, false);
  if (notation == Notation::latex)
    return fmt::format("\\begin{{aligned}}\n{}\n\\end{{aligned}}\n", fmt::join(lines.write(), "\\\\\n"));
  std::string text;
  for (const std::string& line : lines.write()) text += line + "\n";
  return text;
}

std::vector<std::string> formula_lines(KernelOp kernel, size_t columns) {
  return Lines(kernel, Notation::text, columns, true).write();
}

std::string formula(Value value) { return short_form(value, 4).text; }

std::string definition(Value value) {
  Operation* op = value.getDefiningOp();
  SmallVector<Formula> operands;
  for (Value operand : op->getOperands()) operands.push_back(short_form(operand, 3));
  return op_formula(op, operands, Notation::text).text;
}

}  // namespace kdagen
