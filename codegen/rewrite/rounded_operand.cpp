// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/rounded_operand.h"

#include <cmath>
#include <map>

#include "codegen/derive/derive.h"
#include "codegen/rewrite/products.h"
#include "kdagen/error.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

/// An output of the forward, as the backward sees it.
struct Stored {
  std::string cotangent;  ///< the name of its cotangent
  Value value, rounded;
  Product product;
  Scalar unit;  ///< the cotangent handed over is to be multiplied by it
};

/// Copies values of the forward into its backward, in front of the first cotangent; what the backward reads is read.
class ForwardCopy {
 public:
  explicit ForwardCopy(KernelOp backward) : raw_(backward.getContext()) {
    raw_.setInsertionPointToEnd(&backward.block());
    bool forward = true;
    for (auto input : backward.block().getOps<InputOp>()) {
      if (input.getRole() != "cotangent")
        inputs_[input.getTensor().str()] = input;
      else if (std::exchange(forward, false))
        raw_.setInsertionPoint(input);
    }
  }

  OpBuilder& builder() { return raw_; }

  Value copy(Value value) {
    if (auto it = copies_.find(value); it != copies_.end()) return it->second;
    return copies_[value] = copy_new(value);
  }

 private:
  Value copy_new(Value value) {
    Operation* op = value.getDefiningOp();
    if (auto input = llvm::dyn_cast<InputOp>(op))
      if (auto it = inputs_.find(input.getTensor().str()); it != inputs_.end()) return it->second;
    if (auto name = user_name(value))
      if (auto it = inputs_.find(*name); it != inputs_.end() && it->second.getRole() == "residual") return it->second;
    IRMapping mapping;
    for (Value operand : op->getOperands()) mapping.map(operand, copy(operand));
    return raw_.clone(*op, mapping)->getResult(0);
  }

  OpBuilder raw_;
  std::map<std::string, InputOp> inputs_;
  llvm::DenseMap<Value, Value> copies_;
};

bool narrower_than_f32(Type storage) { return storage.getIntOrFloatBitWidth() < 32; }

/// The narrow outputs that hold an exponential. Their values now stand in the backward, each under a kda.round.
std::vector<Stored> stored_outputs(KernelOp backward, KernelOp forward) {
  ForwardCopy forward_copy(backward);
  std::vector<Stored> outputs;
  for (auto output : forward.block().getOps<OutputOp>()) {
    if (output.getRole() != "output" || !narrower_than_f32(output.getStorage())) continue;
    if (llvm::none_of(product_of(output.getValue(), through_exponentials).factors, is_exponential)) continue;
    Stored stored{"d" + output.getTensor().str(), forward_copy.copy(without_broadcast(output.getValue())), {}, {}, {}};
    Builder build(forward_copy.builder(), unnamed(output.getLoc()));
    stored.rounded = build.round(stored.value, output.getStorage());
    // keeps equal values of two outputs apart, and this one alive, while values are merged
    stored.rounded.getDefiningOp()->setAttr("output", StringAttr::get(backward.getContext(), output.getTensor()));
    if (auto coefficient = output.getUnitCoefficient())
      stored.unit = Scalar::of(coefficient->convertToDouble(), output.getUnitSymbolsAttr());
    outputs.push_back(stored);
  }
  return outputs;
}

/// Whether every axis of the value is one of a factor: none was added by a broadcast among them.
bool spanned(Value value, ArrayRef<Value> factors) {
  return llvm::all_of(type_of(value).getAxes(), [&](StringAttr axis) {
    return llvm::any_of(factors, [&](Value factor) { return llvm::is_contained(type_of(factor).getAxes(), axis); });
  });
}

/// The name of the cotangent that an atom is, or sums up.
std::string cotangent_name(Value atom) {
  if (auto input = atom.getDefiningOp<InputOp>())
    return llvm::isa<FloatType>(input.getStorage()) ? input.getTensor().str() : std::string();
  if (!llvm::isa<MulOp, SumOp>(atom.getDefiningOp())) return {};
  for (Value operand : atom.getDefiningOp()->getOperands())
    if (depends_on_cotangent(operand))
      if (std::string name = cotangent_name(operand); !name.empty()) return name;
  return {};
}

/// Whether `ratio` is what the adjoint of an exponential multiplies y*dy by.
bool is_exponent_weight(const Scalar& ratio, const Product& product) {
  Scalar size = ratio;
  size.coefficient = std::abs(size.coefficient);
  auto has = [&](auto kind) {
    return llvm::any_of(product.factors, [&](Value factor) {
      return is_exponential(factor) && llvm::isa<decltype(kind)>(factor.getDefiningOp());
    });
  };
  return (size == Scalar::ln2() && has(Exp2Op())) || (size.is(1.0) && has(ExpOp()));
}

const Stored* stored_of(const Term& term, const std::vector<Stored>& outputs) {
  for (const Stored& stored : outputs)
    if (term.factors == stored.product.factors && cotangent_name(term.atom) == stored.cotangent &&
        is_exponent_weight(term.coefficient * (stored.product.coefficient * stored.unit).inverse(), stored.product))
      return &stored;
  return nullptr;
}

void rewrite_product(MulOp op, const std::vector<Stored>& outputs, RewriteReport& report) {
  auto form = linear_form(op, through_exponentials);
  if (!form || llvm::none_of(*form, [&](const Term& term) { return stored_of(term, outputs); })) return;
  IRRewriter rewriter(op.getContext());
  rewriter.setInsertionPoint(op);
  Builder build(rewriter, unnamed(op.getLoc()));
  SmallVector<Weighted> sum;
  for (Term term : *form) {
    if (const Stored* stored = stored_of(term, outputs)) {
      term.coefficient = term.coefficient * stored->product.coefficient.inverse();
      term.factors = {stored->rounded};
    }
    Scalar coefficient = std::exchange(term.coefficient, Scalar());
    sum.push_back({coefficient, build_term(build, term)});
  }
  report.fired("rounded-operand", op.getLoc());
  replace(rewriter, op, build_sum(build, sum));
}

}  // namespace

void rounded_operand(KernelOp kernel, const RewriteOptions& options, RewriteReport& report) {
  if (!options.rounded_operands || kernel.getDirection() != "bwd") return;
  KernelOp forward = options.forward;
  if (!forward) throw KdagenBug("rounded operands need the forward kernel");
  auto outputs = stored_outputs(kernel, forward);
  if (outputs.empty()) return;
  // merge the copies with what the backward has of them; a use by an output keeps the rounded values alive meanwhile
  std::vector<Operation*> anchors;
  OpBuilder end = OpBuilder::atBlockEnd(&kernel.block());
  for (Stored& stored : outputs) {
    auto names = type_of(stored.rounded).getAxes();
    auto axes = end.getArrayAttr(SmallVector<Attribute>(names.begin(), names.end()));
    anchors.push_back(end.create<OutputOp>(stored.rounded.getLoc(), stored.rounded, "", "", end.getF32Type(), axes,
                                           FloatAttr(), ArrayAttr(), 0, StringAttr(), StringAttr()));
  }
  clean_up(kernel);
  for (auto [stored, anchor] : llvm::zip(outputs, anchors)) {
    stored.rounded = anchor->getOperand(0);
    stored.value = stored.rounded.getDefiningOp<RoundOp>().getX();
    Product product = product_of(stored.value, through_exponentials);
    if (spanned(stored.rounded, product.factors)) stored.product = product;
  }
  for (auto op : llvm::make_early_inc_range(kernel.block().getOps<MulOp>())) rewrite_product(op, outputs, report);
  for (auto [stored, anchor] : llvm::zip(outputs, anchors)) {
    stored.rounded.getDefiningOp()->removeAttr("output");
    anchor->erase();
  }
}

}  // namespace kdagen::kda
