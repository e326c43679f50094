// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/products.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace kdagen::kda {
namespace {
/// Quotients of a value and the values that it is made of, each found and built once.
class Division {
 public:
  explicit Division(Value factor) : factor_(factor) {}

  bool possible(Value value) {
    value = without_broadcast(value);
    if (value == factor_) return true;
    Operation* op = value.getDefiningOp();
    if (!llvm::isa<MulOp, NegOp, AddOp, SubOp>(op)) return false;
    if (auto known = possible_.find(value); known != possible_.end()) return known->second;
    auto operand = [&](Value x) { return possible(x); };
    bool result =
        llvm::isa<MulOp>(op) ? llvm::any_of(op->getOperands(), operand) : llvm::all_of(op->getOperands(), operand);
    return possible_[value] = result;
  }

  Value quotient(Builder& build, Value value) {
    value = without_broadcast(value);
    if (auto known = quotients_.find(value); known != quotients_.end()) return known->second;
    Value result = new_quotient(build, value);
    return quotients_[value] = result;
  }

 private:
  Value new_quotient(Builder& build, Value value) {
    if (value == factor_) return build.constant(1.0);
    if (auto op = value.getDefiningOp<MulOp>()) {
      Value a = without_broadcast(op.getA()), b = without_broadcast(op.getB());
      if (a == factor_) return op.getB();
      if (b == factor_) return op.getA();
      if (possible(a)) return build.mul(quotient(build, a), op.getB());
      return build.mul(op.getA(), quotient(build, b));
    }
    if (auto op = value.getDefiningOp<NegOp>()) return build.neg(quotient(build, op.getX()));
    if (auto op = value.getDefiningOp<AddOp>()) {
      Value a = quotient(build, op.getA());
      return build.add(a, quotient(build, op.getB()));
    }
    auto op = value.getDefiningOp<SubOp>();
    Value a = quotient(build, op.getA());
    return build.sub(a, quotient(build, op.getB()));
  }

  Value factor_;
  llvm::DenseMap<Value, bool> possible_;
  llvm::DenseMap<Value, Value> quotients_;
};
}  // namespace

bool divisible(Value value, Value factor) { return Division(factor).possible(value); }
Value divide(Builder& build, Value value, Value factor) { return Division(factor).quotient(build, value); }

}  // namespace kdagen::kda
