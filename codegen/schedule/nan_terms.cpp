// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/nan_terms.h"

#include <algorithm>
#include <map>
#include <vector>

#include "codegen/ir/Builder.h"
#include "codegen/rewrite/values.h"
#include "kdagen/error.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kdagen::kda;

namespace kdagen::schedule {
namespace {

class NanTerms {
 public:
  explicit NanTerms(KernelOp kernel) : kernel_(kernel), raw_(kernel.getContext()) {}

  void run() {
    SmallVector<Operation*> exits;  // from integers to floats
    for (Operation& op : kernel_.block())
      if (isa<Exp2Op, FromFixedOp>(op) && fixed_type(op.getOperand(0))) exits.push_back(&op);
    SmallVector<std::pair<Value, Value>> open;  // number and term
    for (Operation* exit : exits)
      if (Value term = term_of(exit)) open.push_back({exit->getResult(0), term});
    while (!open.empty()) {  // a number with many readers serves others on the way
      auto most = std::max_element(open.begin(), open.end(), [](auto a, auto b) {
        return readers_in_need(a.first, a.second).size() < readers_in_need(b.first, b.second).size();
      });
      give(most->first, most->second);
      open.erase(most);
    }
  }

 private:
  static SmallVector<OpOperand*> readers_in_need(Value number, Value term) {
    SmallVector<OpOperand*> reads;
    for (OpOperand& read : number.getUses())
      if (!reader_has(read, term)) reads.push_back(&read);
    return reads;
  }

  void give(Value number, Value term) {
    SmallVector<OpOperand*> needy = readers_in_need(number, term);
    if (needy.empty()) return;
    auto product = dyn_cast<MulOp>(needy.front()->getOwner());
    if (needy.size() == 1 && product && !is_summed(product)) {
      raw_.setInsertionPoint(product);
      auto fma = raw_.create<FmaOp>(product.getLoc(), product.getType(), product.getA(), product.getB(), term);
      product.getResult().replaceAllUsesWith(fma.getResult());
      return product.erase();
    }
    raw_.setInsertionPointAfterValue(number);
    auto sum = raw_.create<AddOp>(number.getLoc(), number.getType(), number, term);
    number.replaceAllUsesExcept(sum, sum);
    number.setLoc(unnamed(number.getLoc()));
  }

  /// A row sum takes the factors of its terms apart: the term goes to a factor.
  static bool is_summed(MulOp product) {
    return llvm::any_of(product->getUsers(), [](Operation* user) { return isa<SumOp>(user); });
  }

  static bool is_arithmetic(Operation* op) { return isa<MulOp, FmaOp, AddOp, SubOp, NegOp, RoundOp, BroadcastOp>(op); }

  /// Whether whoever reads a number there becomes NaN with the term, by another operand of its own or of a later
  /// reader.
  static bool reader_has(OpOperand& read, Value term) {
    Operation* reader = read.getOwner();
    if (!is_arithmetic(reader)) return false;
    for (OpOperand& other : reader->getOpOperands())
      if (other.get() != read.get() && has(other.get(), term)) return true;
    Value result = reader->getResult(0);
    return !result.use_empty() &&
           llvm::all_of(result.getUses(), [&](OpOperand& next) { return reader_has(next, term); });
  }

  /// Whether NaN in the term is NaN in the value.
  static bool has(Value value, Value term) {
    llvm::SetVector<Value> made_of;
    made_of.insert(value);
    for (size_t i = 0; i < made_of.size(); ++i) {
      if (made_of[i] == term) return true;
      if (Operation* op = made_of[i].getDefiningOp(); is_arithmetic(op))
        made_of.insert(op->operand_begin(), op->operand_end());
    }
    return false;
  }

  /// -0 or NaN, made once for the same sums; null if the integers come from no sum.
  Value term_of(Operation* exit) {
    llvm::SetVector<Value> sums;
    collect(exit->getOperand(0), sums);
    std::vector<void*> key;
    for (Value sum : sums) key.push_back(sum.getAsOpaquePointer());
    Value& term = terms_[key];
    if (term) return term;
    raw_.setInsertionPoint(exit);
    for (Value sum : sums) {
      Location place = named(sum.getLoc(), "_nan_" + names_[sum.getAsOpaquePointer()]);
      kda::Builder build(raw_, unnamed(sum.getLoc()));
      Value part = raw_.create<MulOp>(place, sum.getType(), build.pointwise<AbsOp>({sum}), build.constant(-0.0));
      term = term ? build.add(term, part) : part;
    }
    return term;
  }

  /// Float sums that are NaN where the integer value should be.
  void collect(Value fixed, llvm::SetVector<Value>& sums) {
    Operation* op = fixed.getDefiningOp();
    if (isa<SumOp, ScanOp>(op)) return void(sums.insert(float_sum(op)));
    if (auto last = dyn_cast<LastOp>(op)) {
      llvm::SetVector<Value> inner;
      collect(last.getX(), inner);
      for (Value sum : inner) sums.insert(has_role(sum, AxisRole::Rows) ? last_of(sum, last) : sum);
      return;
    }
    for (Value operand : op->getOperands())
      if (fixed_type(operand)) collect(operand, sums);
  }

  Value last_of(Value sum, LastOp like) {
    raw_.setInsertionPoint(like);
    Value last = kda::Builder(raw_, unnamed(sum.getLoc())).last(sum, like.getOver());
    names_[last.getAsOpaquePointer()] = names_[sum.getAsOpaquePointer()];
    return last;
  }

  Value float_sum(Operation* op) {
    Value fixed = op->getOperand(0), x = converted(fixed);
    auto is_total = [](Operation* user) { return isa<SumOp>(user); };
    auto total = llvm::find_if(fixed.getUsers(), is_total);
    Operation* wanted = total != fixed.getUsers().end() ? *total : op;
    Value& known = float_sums_[wanted];
    if (known) return known;
    raw_.setInsertionPointAfter(op);
    Operation* clone = raw_.clone(*wanted);
    clone->setLoc(unnamed(op->getLoc()));
    clone->setOperand(0, x);
    known = clone->getResult(0);
    known.setType(ValueType::get(x.getContext(), type_of(known).getAxes(), Float32Type::get(x.getContext())));
    names_[known.getAsOpaquePointer()] = user_name(fixed).value_or(user_name(x).value_or("sum"));
    return known;
  }

  /// The float behind a summand, up to a constant factor: of a sigmoid's two sides, both made of it, the one that is
  /// converted.
  static Value converted(Value fixed) {
    while (Operation* op = fixed.getDefiningOp()) {
      if (auto conversion = dyn_cast<ToFixedOp>(op)) {
        auto product = conversion.getX().getDefiningOp<MulOp>();
        bool scaled = product && constant_scalar(product.getB()) && same_axes(product.getA(), product.getResult());
        return scaled ? product.getA() : conversion.getX();
      }
      if (!isa<SelectOp, BroadcastOp>(op)) break;
      fixed = op->getOperands().back();
    }
    throw KdagenBug("nan_terms: a fixed-point sum of something that no kda.to_fixed made");
  }

  KernelOp kernel_;
  OpBuilder raw_;
  std::map<std::vector<void*>, Value> terms_;
  std::map<Operation*, Value> float_sums_;
  std::map<void*, std::string> names_;  // of the summands, for the text
};

}  // namespace

void add_nan_terms(KernelOp kernel) { NanTerms(kernel).run(); }

}  // namespace kdagen::schedule
