// SPDX-License-Identifier: Apache-2.0
#include "codegen/explain/notation.h"

#include <fmt/format.h>

#include "codegen/ir/Scalar.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace kdagen {
namespace {
using namespace kda;

class Writer {
 public:
  Writer(Operation* op, llvm::ArrayRef<Formula> operands, Notation notation)
      : op_(op), operands_(operands), latex_(notation == Notation::latex) {}

  Formula write() const {
    if (keeps_finite(op_)) return operands_[0];
    return llvm::TypeSwitch<Operation*, Formula>(op_)
        .Case<ConstantOp>([&](ConstantOp op) { return constant(Scalar::of(op)); })
        .Case<InputOp>([&](InputOp op) { return name_formula(op.getTensor().str(), notation()); })
        .Case<IndexOp>([&](IndexOp op) { return call("index", op.getOver().str()); })
        .Case<AddOp>([&](auto) { return infix(Formula::sum, " + ", Formula::sum, Formula::sum); })
        .Case<SubOp>([&](auto) { return infix(Formula::sum, " - ", Formula::sum, Formula::product); })
        .Case<MulOp>(
            [&](auto) { return infix(Formula::product, latex_ ? " \\cdot " : "*", Formula::product, Formula::sign); })
        .Case<DivOp>([&](auto) { return quotient(operand(0, Formula::product), operands_[1]); })
        .Case<RcpOp>([&](auto) { return quotient("1", operands_[0]); })
        .Case<NegOp>([&](auto) { return Formula{"-" + operand(0, Formula::product), Formula::sign}; })
        .Case<Exp2Op>([&](auto) { return power("2", operands_[0]); })
        .Case<ExpOp>([&](auto) { return latex_ ? power("e", operands_[0]) : call("exp"); })
        .Case<PowOp>([&](auto) { return power(operand(0, Formula::atom), operands_[1]); })
        .Case<SqrtOp>([&](auto) { return latex_ ? Formula{"\\sqrt{" + operands_[0].text + "}"} : call("sqrt"); })
        .Case<RsqrtOp>(
            [&](auto) { return latex_ ? Formula{"\\frac{1}{\\sqrt{" + operands_[0].text + "}}"} : call("rsqrt"); })
        .Case<InverseNormOp>([&](InverseNormOp op) { return inverse_norm(op); })
        .Case<SigmoidGradOp>([&](auto) { return call(latex_ ? "\\sigma'" : "sigmoid'"); })
        .Case<SigmoidOp>([&](auto) { return call(latex_ ? "\\sigma" : "sigmoid"); })
        .Case<AbsOp>([&](auto) { return Formula{"|" + operands_[0].text + "|"}; })
        .Case<LessOp>([&](auto) { return infix(Formula::comparison, " < ", Formula::sum, Formula::sum); })
        .Case<LessEqualOp>(
            [&](auto) { return infix(Formula::comparison, latex_ ? " \\le " : " <= ", Formula::sum, Formula::sum); })
        .Case<EqualOp>(
            [&](auto) { return infix(Formula::comparison, latex_ ? " = " : " == ", Formula::sum, Formula::sum); })
        .Case<FmaOp>([&](auto) { return call("fma"); })
        .Case<SelectOp>([&](auto) { return choice(); })
        .Case<ClampOp>([&](ClampOp op) {
          return call("clamp", operands_[0].text + ", " + number(op.getLower().convertToDouble()) + ", " +
                                   number(op.getUpper().convertToDouble()));
        })
        .Case<RoundOp>([&](RoundOp op) { return call("round_" + storage_name(op.getStorage())); })
        .Case<SumOp>([&](SumOp op) { return over_axes(latex_ ? "\\sum" : "sum", op.getOver()); })
        .Case<MaxReduceOp>([&](MaxReduceOp op) { return over_axes(latex_ ? "\\max" : "max", op.getOver()); })
        .Case<ScanOp>([&](ScanOp op) { return scan(op); })
        .Case<LastOp>([&](LastOp op) { return call("last_" + op.getOver().str()); })
        .Case<AtLastOp>([&](AtLastOp op) { return call("at_last_" + op.getOver().str()); })
        .Case<ShiftOp>([&](ShiftOp op) {
          return call("shift_" + op.getOver().str(),
                      fmt::format("{}, {}, {}", operands_[0].text, static_cast<int64_t>(op.getAmount()),
                                  number(op.getFill().convertToDouble())));
        })
        .Case<BoundaryOp>([&](BoundaryOp op) {
          return call("boundary_" + op.getOver().str(),
                      fmt::format("{}, {}", operands_[0].text, static_cast<int64_t>(op.getEvery())));
        })
        .Case<BroadcastOp, ToFixedOp, FromFixedOp>([&](auto) { return operands_[0]; })
        .Default([&](Operation* op) { return call(op->getName().stripDialect().str()); });
  }

 private:
  Notation notation() const { return latex_ ? Notation::latex : Notation::text; }

  /// The operand, in parentheses if it binds less tightly than `at_least`.
  std::string operand(size_t i, Formula::Binding at_least) const {
    const Formula& formula = operands_[i];
    if (formula.binding >= at_least) return formula.text;
    return latex_ ? "\\left(" + formula.text + "\\right)" : "(" + formula.text + ")";
  }

  Formula infix(Formula::Binding binding, const char* sign, Formula::Binding left, Formula::Binding right) const {
    return {operand(0, left) + sign + operand(1, right), binding};
  }

  std::string arguments() const {
    std::string text;
    for (const Formula& formula : operands_) text += (text.empty() ? "" : ", ") + formula.text;
    return text;
  }

  Formula call(const std::string& function, const std::string& arguments) const {
    bool word = latex_ && function[0] != '\\';
    std::string name = function;
    if (word) {
      auto cut = function.find('_');
      name = "\\mathrm{" + function.substr(0, cut) + "}" +
             (cut == std::string::npos ? "" : "_{\\mathrm{" + escaped(function.substr(cut + 1)) + "}}");
    }
    return {latex_ ? name + "\\left(" + arguments + "\\right)" : name + "(" + arguments + ")"};
  }
  Formula call(const std::string& function) const { return call(function, arguments()); }

  Formula quotient(const std::string& left, const Formula& right) const {
    if (latex_) return {"\\frac{" + left + "}{" + right.text + "}"};
    bool simple = right.binding >= Formula::power;
    return {left + "/" + (simple ? right.text : "(" + right.text + ")"), Formula::product};
  }

  Formula power(const std::string& base, const Formula& exponent) const {
    if (latex_) return {base + "^{" + exponent.text + "}", Formula::power};
    return {base + "^" + (exponent.binding == Formula::atom ? exponent.text : "(" + exponent.text + ")"),
            Formula::power};
  }

  Formula choice() const {
    if (latex_)
      return {"\\begin{cases}" + operands_[1].text + " & \\text{if } " + operands_[0].text + "\\\\ " +
              operands_[2].text + " & \\text{else}\\end{cases}"};
    return {operand(0, Formula::comparison) + " ? " + operand(1, Formula::sum) + " : " + operand(2, Formula::sum),
            Formula::choice};
  }

  Formula over_axes(const std::string& name, ArrayAttr over) const {
    std::string axes;
    for (Attribute axis : over) axes += (axes.empty() ? "" : ",") + llvm::cast<StringAttr>(axis).getValue().str();
    if (latex_) return {name + "_{" + axes + "} " + operand(0, Formula::product), Formula::product};
    return call(name + "_" + (over.size() == 1 ? axes : "{" + axes + "}"));
  }

  /// As the spec has it: rsqrt(sum_d(x*x)*factor + eps).
  Formula inverse_norm(InverseNormOp op) const {
    const std::string x = operand(0, Formula::product), axis = llvm::cast<StringAttr>(op.getOver()[0]).getValue().str();
    std::string inside = latex_ ? "\\sum_{" + axis + "} " + x + " \\cdot " + operand(0, Formula::sign)
                                : "sum_" + axis + "(" + x + "*" + operand(0, Formula::sign) + ")";
    if (!Scalar::of(op.getFactor().getDefiningOp<ConstantOp>()).is(1.0))
      inside += (latex_ ? " \\cdot " : "*") + operand(1, Formula::sign);
    if (!Scalar::of(op.getEps().getDefiningOp<ConstantOp>()).is(0.0)) inside += " + " + operand(2, Formula::sum);
    return latex_ ? Formula{"\\frac{1}{\\sqrt{" + inside + "}}"} : call("rsqrt", inside);
  }

  Formula scan(ScanOp op) const {
    std::string name = op.getReverse() ? "suffix_sum" : "cumsum";
    if (latex_) {
      std::string relation = op.getReverse() ? (op.getExclusive() ? ">" : "\\ge") : (op.getExclusive() ? "<" : "\\le");
      std::string row = op.getOver().str();
      return {"\\sum_{" + row + "' " + relation + " " + row + "} " + operand(0, Formula::product), Formula::product};
    }
    return call(name + "_" + op.getOver().str() + (op.getExclusive() ? "_exclusive" : ""));
  }

  std::string number(double value) const { return fmt::format("{}", value); }

  Formula constant(const Scalar& scalar) const {
    std::string text = scalar.text();
    if (latex_) {
      std::string product = scalar.coefficient == 1.0 && !scalar.symbols.empty()    ? ""
                            : scalar.coefficient == -1.0 && !scalar.symbols.empty() ? "-"
                                                                                    : number(scalar.coefficient);
      for (const auto& [name, symbol] : scalar.symbols) {
        std::string base = name == "ln2" ? "\\ln 2" : "\\mathit{" + escaped(name) + "}";
        product += (product.empty() || product == "-" ? "" : "\\,") +
                   (symbol.power == 1 ? base : fmt::format("({})^{{{}}}", base, symbol.power));
      }
      text = product;
    }
    Formula::Binding binding = text[0] == '-'                        ? Formula::sign
                               : text.find('*') != std::string::npos ? Formula::product
                                                                     : Formula::atom;
    if (latex_ && binding == Formula::atom && scalar.symbols.size() > 1) binding = Formula::product;
    return {text, binding};
  }

  static std::string storage_name(Type storage) { return storage.isBF16() ? "bf16" : storage.isF16() ? "fp16" : "f32"; }

 public:
  static std::string escaped(const std::string& name) {
    std::string result;
    for (char c : name) result += c == '_' ? std::string("\\_") : std::string(1, c);
    return result;
  }

 private:
  Operation* op_;
  llvm::ArrayRef<Formula> operands_;
  bool latex_;
};

}  // namespace

Formula name_formula(const std::string& name, Notation notation) {
  return {notation == Notation::latex ? "\\mathit{" + Writer::escaped(name) + "}" : name};
}

Formula op_formula(Operation* op, llvm::ArrayRef<Formula> operands, Notation notation) {
  return Writer(op, operands, notation).write();
}

}  // namespace kdagen
