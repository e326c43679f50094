// SPDX-License-Identifier: Apache-2.0
#include "codegen/analysis/anchors.h"

#include <fmt/format.h>

#include "codegen/analysis/ranges.h"
#include "codegen/explain/formulas.h"
#include "codegen/ir/Builder.h"
#include "kdagen/error.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace kdagen {
namespace {

[[noreturn]] void refuse(kda::OutputOp output, const std::string& what) {
  throw SpecError(fmt::format("{}: error: output '{}' cannot be anchored: {}", kda::spec_line(output.getLoc()),
                              output.getTensor().str(), what));
}

/// The first exponential among the factors of a product; null if there is none.
kda::Exp2Op exponential_factor(Value value) {
  SmallVector<Value> pending = {value};
  llvm::DenseSet<Value> visited;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    if (!visited.insert(next).second) continue;
    Operation* op = next.getDefiningOp();
    if (auto exponential = llvm::dyn_cast<kda::Exp2Op>(op)) return exponential;
    if (llvm::isa<kda::MulOp, kda::NegOp, kda::BroadcastOp>(op))
      for (Value operand : llvm::reverse(op->getOperands())) pending.push_back(operand);
  }
  return {};
}

/// `value` (a product) with one factor replaced by another of the same axes; the path down to it is written anew.
/// `without`: values known not to have the factor.
Value with_factor(kda::Builder& build, Value value, Value factor, Value replacement, llvm::DenseSet<Value>& without) {
  if (value == factor) return replacement;
  Operation* op = value.getDefiningOp();
  if (!llvm::isa<kda::MulOp, kda::NegOp, kda::BroadcastOp>(op) || without.contains(value)) return {};
  for (OpOperand& operand : op->getOpOperands()) {
    Value changed = with_factor(build, operand.get(), factor, replacement, without);
    if (!changed) continue;
    Operation* copy = build.raw().clone(*op);
    copy->setOperand(operand.getOperandNumber(), changed);
    return copy->getResult(0);
  }
  without.insert(value);
  return {};
}

/// Minus the middle of the range.
int64_t middle_anchor(Interval range) { return std::llrint(-(range.lo + range.hi) / 2); }

class Placement {
 public:
  explicit Placement(kda::KernelOp kernel) : kernel_(kernel) {}

  void place(kda::OutputOp output) {
    kda::Exp2Op exponential = exponential_factor(output.getValue());
    if (!exponential) refuse(output, "it is no product with a factor exp2(x); leave the anchor away");
    OpBuilder raw(output);
    kda::Builder build(raw, exponential.getLoc());
    Value exponent = output.getAnchorKind() == StringRef("static") ? by_constant(output, exponential, build)
                                                                   : by_subchunk(output, exponential, build);
    output.removeAnchorKindAttr();
    if (!exponent) return;
    llvm::DenseSet<Value> without;
    output.getValueMutable().assign(
        with_factor(build, output.getValue(), exponential.getResult(), build.exp2(exponent), without));
  }

 private:
  /// x + s; null where s is 0.
  Value by_constant(kda::OutputOp output, kda::Exp2Op exponential, kda::Builder& build) {
    Interval range = analyse(kernel_).of(exponential.getX());
    if (!range.bounded()) refuse(output, unbounded(exponential.getX(), "has no bounds"));
    const int64_t anchor = middle_anchor(range);
    if (anchor == 0) return {};
    output.setAnchor(anchor);
    return marked(build.add(exponential.getX(), build.constant(double(anchor))));
  }

  /// x + s, or -(x + s) for an exponent -x.
  Value by_subchunk(kda::OutputOp output, kda::Exp2Op exponential, kda::Builder& build) {
    if (kernel_.chunk() <= subchunk_rows)
      refuse(
          output,
          fmt::format(
              "a chunk of {} rows is one sub-chunk of {}; pass anchor static, which needs no tensor, or a longer chunk",
              kernel_.chunk(), subchunk_rows));
    Value x = exponential.getX();
    int64_t sign = 1;
    for (auto neg = x.getDefiningOp<kda::NegOp>(); neg; neg = x.getDefiningOp<kda::NegOp>(), sign = -sign)
      x = neg.getX();
    if (!kda::has_role(x, kda::AxisRole::Rows))
      refuse(output, "the exponent " + formula(x) + " has no rows; pass anchor static");
    kda::OutputOp& tensor = anchors_[x];
    if (!tensor) tensor = add_tensor(output, x, build);
    output.setAnchorTensorAttr(tensor.getTensorAttr());
    output.setAnchorSign(sign);
    Value sum = marked(build.add(x, build.pointwise<kda::DetachOp>({tensor.getValue()})));
    return sign > 0 ? sum : marked(build.neg(sum));
  }

  kda::OutputOp add_tensor(kda::OutputOp first, Value x, kda::Builder& build) {
    kda::AxisAttr rows = kernel_.axis(kda::AxisRole::Rows);
    OpBuilder& raw = build.raw();
    Value before = build.pointwise<kda::RintOp>({build.boundary(x, rows.getName().getValue(), subchunk_rows)});
    Value difference = build.sub(x, before);
    Interval inside = Ranges().of(difference);
    difference.getDefiningOp()->erase();
    if (!inside.bounded())
      refuse(first, unbounded(x, fmt::format("has no bounds inside a sub-chunk of {} rows", subchunk_rows)));
    const std::string name = first.getTensor().str() + "_anchor";
    require_free(first, name);
    Value middle = build.constant(double(middle_anchor(inside)));
    const Location place = build.location();
    build.set_location(kda::named(first.getLoc(), name));
    Value anchor = build.sub(middle, before);
    SmallVector<StringRef> axes;
    for (StringAttr axis : kda::type_of(x).getAxes()) axes.push_back(axis.getValue());
    auto tensor =
        raw.create<kda::OutputOp>(first.getLoc(), anchor, name, "output", raw.getI32Type(), raw.getStrArrayAttr(axes),
                                  FloatAttr(), ArrayAttr(), 0, StringAttr(), StringAttr());
    tensor.setEvery(subchunk_rows);
    build.set_location(place);
    return tensor;
  }

  /// The tensor and the value that it holds are called `name`.
  void require_free(kda::OutputOp first, const std::string& name) {
    for (Operation& op : kernel_.block()) {
      auto output = llvm::dyn_cast<kda::OutputOp>(op);
      auto value = op.getNumResults() == 1 ? kda::user_name(op.getResult(0)) : std::nullopt;
      if (auto input = llvm::dyn_cast<kda::InputOp>(op)) value = input.getTensor().str();
      if ((output && output.getTensor() == name) || value == name)
        refuse(
            first,
            fmt::format("its anchors are the output '{}', which is the name of another value; rename that one", name));
    }
  }

  static std::string unbounded(Value exponent, const std::string& what) {
    return "the exponent " + formula(exponent) + " " + what + "; bound the gate, or store the exponent itself";
  }

  Value marked(Value exponent) {
    exponent.getDefiningOp()->setAttr(anchored_attribute, UnitAttr::get(kernel_.getContext()));
    return exponent;
  }

  kda::KernelOp kernel_;
  llvm::DenseMap<Value, kda::OutputOp> anchors_;  // by exponent
};

}  // namespace

void place_anchors(kda::KernelOp forward) {
  Placement placement(forward);
  for (auto output : llvm::make_early_inc_range(forward.block().getOps<kda::OutputOp>()))
    if (output.getAnchorKind()) placement.place(output);
}

}  // namespace kdagen
