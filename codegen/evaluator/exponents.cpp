// SPDX-License-Identifier: Apache-2.0
// The exponent of an output's exponential factors, as kda ops of its own.
#include <numbers>

#include "codegen/evaluator/evaluator.h"
#include "codegen/ir/Builder.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace kdagen::evaluator {
namespace {

class ExponentBuilder {
 public:
  explicit ExponentBuilder(kda::Builder& build) : build_(build) {}

  /// log2 of the exponential factors of x; null if it has none. Built once for each value.
  mlir::Value exponent(mlir::Value x) {
    if (auto known = known_.find(x); known != known_.end()) return known->second;
    mlir::Value result = new_exponent(x);
    return known_[x] = result;
  }

 private:
  mlir::Value new_exponent(mlir::Value x) {
    auto* op = x.getDefiningOp();
    auto of = [&](unsigned operand) { return exponent(op->getOperand(operand)); };
    if (llvm::isa<kda::Exp2Op>(op)) return op->getOperand(0);
    if (llvm::isa<kda::ExpOp>(op)) return times(op->getOperand(0), std::numbers::log2e);
    if (llvm::isa<kda::MulOp>(op)) return add(of(0), of(1));
    if (llvm::isa<kda::DivOp>(op)) return add(of(0), times(of(1), -1));
    if (llvm::isa<kda::RcpOp>(op)) return times(of(0), -1);
    if (llvm::isa<kda::SqrtOp>(op)) return times(of(0), 0.5);
    if (llvm::isa<kda::RsqrtOp>(op)) return times(of(0), -0.5);
    if (llvm::isa<kda::NegOp, kda::AbsOp, kda::RoundOp, kda::DetachOp, kda::BroadcastOp>(op)) return of(0);
    return {};
  }

  mlir::Value times(mlir::Value x, double factor) { return x ? build_.mul(x, build_.constant(factor)) : x; }
  mlir::Value add(mlir::Value a, mlir::Value b) { return a && b ? build_.add(a, b) : a ? a : b; }

  kda::Builder& build_;
  llvm::DenseMap<mlir::Value, mlir::Value> known_;
};

}  // namespace

Arrays output_exponents(kda::KernelOp forward, const Arrays& inputs, const Instance& instance) {
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(forward.getLoc());
  mlir::OpBuilder raw = mlir::OpBuilder::atBlockEnd(module->getBody());
  auto kernel = llvm::cast<kda::KernelOp>(raw.clone(*forward.getOperation()));
  for (auto output : llvm::to_vector(kernel.block().getOps<kda::OutputOp>())) {
    raw.setInsertionPoint(output);
    kda::Builder build(raw, output.getLoc());
    mlir::Value exponent = ExponentBuilder(build).exponent(output.getValue());
    if (!exponent) exponent = build.constant(0.0);
    if (exponent != output.getValue()) output.getValueMutable().assign(exponent);
  }
  return evaluate(kernel, inputs, instance).tensors;
}

}  // namespace kdagen::evaluator
