// SPDX-License-Identifier: Apache-2.0
#include "codegen/derive/derive.h"

#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/analysis/ranges.h"
#include "codegen/derive/tensors.h"
#include "codegen/diagnostics.h"
#include "codegen/import/from_graph.h"
#include "kdagen/error.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace kdagen {
namespace {
using kda::Builder;
using kda::KernelOp;

std::map<std::string, AdjointRule>& custom_rules() {
  static std::map<std::string, AdjointRule> rules;
  return rules;
}

Location without_name(Location location) {
  auto name = llvm::dyn_cast<NameLoc>(location);
  return name ? name.getChildLoc() : location;
}

/// Gives the value's op this name unless it is a tensor or has one already.
void name_value(Value value, const std::string& name) {
  Operation* op = value.getDefiningOp();
  if (!llvm::isa<kda::InputOp>(op) && !kda::user_name(value)) op->setLoc(kda::named(op->getLoc(), name));
}

/// Whether the op's derivative is infinite or undefined somewhere in the operands' ranges.
bool may_be_singular(Operation* op, const Ranges& ranges) {
  auto positive = [&](Value x) { return ranges.of(x).lo > 0; };
  if (llvm::isa<kda::SqrtOp, kda::RsqrtOp, kda::LogOp>(op)) return !positive(op->getOperand(0));
  if (llvm::isa<kda::Log1pOp>(op)) return !(ranges.of(op->getOperand(0)).lo > -1);
  if (llvm::isa<kda::RcpOp>(op)) return ranges.of(op->getOperand(0)).contains(0);
  if (llvm::isa<kda::DivOp>(op)) return ranges.of(op->getOperand(1)).contains(0);
  if (auto pow = llvm::dyn_cast<kda::PowOp>(op)) {
    auto exponent = kda::constant_scalar(pow.getB());
    return !positive(pow.getA()) && !(exponent && exponent->value() >= 1);
  }
  return false;
}

/// One reverse walk over a clone of the forward.
class ReverseWalk {
 public:
  ReverseWalk(KernelOp kernel, const CompileOptions& options)
      : kernel_(kernel), options_(options), raw_(kernel.getContext()), build_(raw_, kernel.getLoc()) {
    for (Operation& op : kernel.block()) forward_.push_back(&op);
    raw_.setInsertionPointToEnd(&kernel.block());
  }

  void run() {
    find_active();
    for (Operation* op : forward_)
      if (auto output = llvm::dyn_cast<kda::OutputOp>(op)) read_cotangent(output);
    for (Operation* op : llvm::reverse(forward_)) visit(op);
    for (Operation* op : forward_)
      if (auto input = llvm::dyn_cast<kda::InputOp>(op)) write_gradient(input);
    for (Operation* op : forward_)
      if (llvm::isa<kda::OutputOp>(op)) op->erase();
  }

 private:
  /// A value is active if a change of some input or param changes it differentiably.
  void find_active() {
    for (Operation* op : forward_) {
      if (op->getNumResults() != 1) continue;
      Value result = op->getResult(0);
      bool active = llvm::any_of(op->getOperands(), [&](Value operand) { return active_.contains(operand); });
      if (auto input = llvm::dyn_cast<kda::InputOp>(op)) active = llvm::isa<FloatType>(input.getStorage());
      if (llvm::isa<kda::DetachOp>(op) || kda::type_of(result).getElement().isInteger(1)) active = false;
      if (active) active_.insert(result);
    }
  }

  void read_cotangent(kda::OutputOp output) {
    if (!llvm::isa<FloatType>(output.getStorage())) return;  // an integer has none
    Value cotangent = cotangent_input(build_, output, options_);
    cotangents_.insert("d" + output.getTensor().str());
    if (!active_.contains(output.getValue())) return;
    contributions_[output.getValue()].push_back(build_.sum_to(cotangent, output.getValue()));
  }

  /// The cotangent of `value`, with exactly its axes; null if none arrives. Contributions add up in the order in which
  /// the forward uses the value.
  Value cotangent_of(Value value) {
    auto it = contributions_.find(value);
    if (it == contributions_.end()) return {};
    build_.set_location(without_name(value.getLoc()));
    Value total = it->second.back();
    for (Value contribution : llvm::drop_begin(llvm::reverse(it->second))) total = build_.add(total, contribution);
    total = build_.broadcast_like(total, value);
    if (auto name = kda::user_name(value); name && !cotangents_.count("d" + *name)) name_value(total, "d" + *name);
    return total;
  }

  void visit(Operation* op) {
    if (llvm::isa<kda::InputOp, kda::OutputOp>(op) || !active_.contains(op->getResult(0))) return;
    Value dy = cotangent_of(op->getResult(0));
    if (!dy) return;
    auto contributions = adjoint_of(op, dy);
    if (contributions.size() != op->getNumOperands())
      throw KdagenBug(fmt::format("the adjoint of {} gives {} contributions for {} operands",
                                  op->getName().getStringRef().str(), contributions.size(), op->getNumOperands()));
    bool singular = may_be_singular(op, ranges_);
    for (auto [operand, contribution] : llvm::zip(op->getOperands(), contributions)) {
      if (!contribution || !active_.contains(operand)) continue;
      if (singular) contribution = zero_where_zero(dy, contribution);
      contributions_[operand].push_back(build_.sum_to(contribution, operand));
    }
  }

  /// 0 where dy is 0: there 0 times an infinite derivative is NaN, though nothing flows (the branch that a select or
  /// max did not take, a norm of a zero vector behind a square).
  Value zero_where_zero(Value dy, Value contribution) {
    Value zero = build_.constant(0.0);
    return build_.select(build_.compare<kda::EqualOp>({dy, zero}), zero, contribution);
  }

  SmallVector<Value> adjoint_of(Operation* op, Value dy) {
    build_.set_location(without_name(op->getLoc()));
    std::string name = op->getName().getStringRef().str();
    if (auto it = custom_rules().find(name); it != custom_rules().end()) return it->second(build_, op, dy);
    auto differentiable = llvm::dyn_cast<kda::AdjointOpInterface>(op);
    if (!differentiable)
      throw SpecError(
          fmt::format("{}: error: {} has no adjoint, so no backward can be derived through it; give it one with "
                      "custom_adjoint(\"{}\", rule), or write detach(x) where no gradient shall flow",
                      kda::spec_line(op->getLoc()), name, name));
    return differentiable.adjoint(build_, dy);
  }

  void write_gradient(kda::InputOp input) {
    if (!llvm::isa<FloatType>(input.getStorage())) return;
    Value gradient = cotangent_of(input.getResult());
    build_.set_location(kda::named(input.getLoc(), "d" + input.getTensor().str()));
    if (!gradient) gradient = build_.constant(0.0);
    write_tensor(build_, gradient, "d" + input.getTensor().str(),
                 input.getRole() == "param" ? "param_gradient" : "gradient",
                 input.getRole() == "param" ? Type(raw_.getF32Type()) : storage_of(raw_, options_.grads),
                 kda::type_of(input.getResult()));
  }

  KernelOp kernel_;
  const CompileOptions& options_;
  OpBuilder raw_;
  Builder build_;
  SmallVector<Operation*> forward_;
  Ranges ranges_;
  std::set<std::string> cotangents_;  // tensor names
  llvm::DenseSet<Value> active_;
  llvm::DenseMap<Value, SmallVector<Value>> contributions_;
};

OwningOpRef<ModuleOp> clone_kernel(KernelOp kernel, llvm::StringRef direction) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
  OpBuilder builder(module->getBodyRegion());
  auto clone = llvm::cast<KernelOp>(builder.clone(*kernel));
  clone.setDirection(direction);
  return module;
}

}  // namespace

void custom_adjoint(const std::string& op_name, AdjointRule rule) {
  if (rule)
    custom_rules()[op_name] = std::move(rule);
  else
    custom_rules().erase(op_name);
}

OwningOpRef<ModuleOp> derive(KernelOp forward, const CompileOptions& options) {
  check_output_names(forward, options);
  auto module = clone_kernel(forward, "bwd");
  KernelOp kernel = only_kernel(*module);
  auto saved = find_saved(kernel, options.save);
  ReverseWalk(kernel, options).run();
  check_tensor_names(kernel);
  for (Value value : saved) read_residual(kernel, value);
  add_taps(kernel, options.taps);
  resolve_detach(kernel);
  clean_up(kernel);
  return module;
}

OwningOpRef<ModuleOp> prepare_forward(KernelOp forward, const CompileOptions& options) {
  check_output_names(forward, options);
  auto module = clone_kernel(forward, "fwd");
  KernelOp kernel = only_kernel(*module);
  for (Value value : find_saved(kernel, options.save)) write_residual(kernel, value);
  add_taps(kernel, options.taps);
  resolve_detach(kernel);
  clean_up(kernel);
  return module;
}

}  // namespace kdagen
