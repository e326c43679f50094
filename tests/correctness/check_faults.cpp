// SPDX-License-Identifier: Apache-2.0
// The bounds are tight enough: every fault that hand-written kernels are known for exceeds them, in every shipped spec
// that it can happen in. Faults are put into the rewritten backward, which then runs in float32.
#include <cmath>
#include <map>
#include <numbers>

#include <gtest/gtest.h>

#include "codegen/ir/Builder.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "tools/check/check.h"
#include "tools/check/comparison.h"
#include "tools/check/cotangents.h"
#include "tools/check/problem.h"
#include "tools/spec_source.h"

namespace kdagen {
namespace {

using mlir::Value;

/// Replaces the result of every OpTy by what `make` builds behind it; counts the replacements.
template <class OpTy, class Make>
int replace_each(kda::KernelOp kernel, Make make) {
  int count = 0;
  for (OpTy op : llvm::to_vector(kernel.block().getOps<OpTy>())) {
    mlir::OpBuilder raw(op);
    raw.setInsertionPointAfter(op);
    kda::Builder build(raw, op.getLoc());
    mlir::Operation* behind = op->getNextNode();
    Value result = make(build, op);
    if (!result) continue;
    llvm::SmallPtrSet<mlir::Operation*, 8> own;
    for (mlir::Operation* added = op->getNextNode(); added != behind; added = added->getNextNode()) own.insert(added);
    op->getResult(0).replaceAllUsesExcept(result, own);
    ++count;
  }
  return count;
}

Value slope_of(kda::Builder& build, Value sigmoid) {
  return build.mul(sigmoid, build.sub(build.constant(1.0), sigmoid));
}

int sigmoid_slope_by_difference(kda::KernelOp kernel) {
  return replace_each<kda::SigmoidGradOp>(kernel, [](kda::Builder& build, kda::SigmoidGradOp op) {
    return slope_of(build, build.pointwise<kda::SigmoidOp>({op.getX()}));
  });
}

/// tanh.approx has 11 bits, as many as fp16.
int sigmoid_slope_by_approximate_tanh(kda::KernelOp kernel) {
  return replace_each<kda::SigmoidGradOp>(kernel, [](kda::Builder& build, kda::SigmoidGradOp op) {
    Value tanh = build.pointwise<kda::TanhOp>({build.mul(op.getX(), build.constant(0.5))});
    Value coarse = build.mul(build.round(tanh, build.raw().getF16Type()), build.constant(0.5));
    return slope_of(build, build.add(coarse, build.constant(0.5)));
  });
}

int scan_without_carry(kda::KernelOp kernel) {
  return replace_each<kda::ScanOp>(kernel, [](kda::Builder& build, kda::ScanOp op) -> Value {
    Value first = build.compare<kda::LessOp>({build.index(op.getOver()), build.constant(8.0)});
    Value zero = build.constant(0.0);
    if (kda::FixedType fixed = kda::fixed_type(op.getX()))
      zero.setType(kda::ValueType::get(build.context(), {}, fixed));
    auto scan = [&](Value x) { return build.scan(x, op.getOver(), op.getExclusive(), op.getReverse()); };
    return build.select(first, scan(build.select(first, op.getX(), zero)), scan(build.select(first, zero, op.getX())));
  });
}

int row_sum_in_bf16(kda::KernelOp kernel) {
  return replace_each<kda::SumOp>(kernel, [&](kda::Builder& build, kda::SumOp op) -> Value {
    const bool in_row = kda::type_of(op.getResult()).hasAxis("t");
    return in_row ? build.round(op.getResult(), build.raw().getBF16Type()) : Value();
  });
}

int ln2_twice(kda::KernelOp kernel) {
  return replace_each<kda::ScanOp>(kernel, [](kda::Builder& build, kda::ScanOp op) -> Value {
    return op.getReverse() ? build.mul(op.getResult(), kda::Scalar::ln2()) : Value();
  });
}

struct Fault {
  const char* name;
  int (*inject)(kda::KernelOp);
  bool saturated;  ///< shows at |z| >= 12
};
const Fault faults[] = {{"sigmoid' as s*(1-s)", sigmoid_slope_by_difference, true},
                        {"sigmoid' by tanh.approx", sigmoid_slope_by_approximate_tanh, true},
                        {"scan without carry", scan_without_carry, false},
                        {"row sum in bf16", row_sum_in_bf16, false},
                        {"ln2 twice", ln2_twice, false}};

/// A spec's backward with exact operands and f32 gradients, on inputs of its workload.
class Bench {
 public:
  Bench(const std::string& spec, bool saturated)
      : graph_(graph_bytes(spec, {})),
        forward_(graph_, Direction::fwd, options()),
        backward_(graph_, Direction::bwd, options()),
        problem_(problem_of(graph_, forward_.kernel(Stage::kda), shape())),
        workload_(find_workload(spec)) {
    Tensors inputs =
        workload_.inputs(problem_, saturated ? workload_.regimes().back() : workload_.regimes().front(), 5);
    if (saturated && inputs.count("beta_raw"))
      for (double& value : inputs["beta_raw"].values) value = value < 0 ? -14 : 14;
    Tensors exponents = tensors_of(
        evaluator::output_exponents(forward_.kernel(Stage::kda), arrays_of(inputs), instance_of(problem_.shape)),
        forward_.kernel(Stage::kda), problem_.shape);
    ConsumerOptions consumer;
    consumer.exponents = &exponents;
    kda::KernelOp unrewritten = backward_.kernel(Stage::derived), rewritten = backward_.kernel(Stage::rewritten);
    all_ = inputs;
    for (auto& [name, tensor] : store_cotangents(workload_.upstream(problem_, inputs, consumer), unrewritten, problem_))
      all_[name] = tensor;
    evaluator::EvaluateOptions exact;
    exact.running_error = true;
    reference_.errors =
        evaluator::evaluate(rewritten, arrays_of(all_), instance_of(problem_.shape), exact).error_bounds;
    reference_.tensors =
        tensors_of(evaluator::evaluate(unrewritten, arrays_of(all_), instance_of(problem_.shape)).tensors, unrewritten,
                   problem_.shape);
  }

  /// A copy of the rewritten backward.
  mlir::OwningOpRef<mlir::ModuleOp> copy() { return backward_.module(Stage::rewritten).clone(); }

  bool passes(kda::KernelOp kernel) {
    const Tensors actual = evaluated_subject(kernel)->run(all_, problem_.shape);
    ComparisonOptions options;
    options.factor = error_factor;
    options.storage = "f32";
    bool ok = true;
    for (const Verdict& verdict : compare_outputs(problem_, workload_, reference_, actual, kernel, options))
      ok &= verdict.ok;
    return ok;
  }

 private:
  static CompileOptions options() {
    CompileOptions options;
    options.operands = Operands::exact;
    options.grads = "f32";
    return options;
  }
  static Shape shape() {
    Shape shape;
    shape.seqlens = {80};
    shape.heads = 2;
    return shape;
  }

  std::string graph_;
  Compilation forward_, backward_;
  Problem problem_;
  const Workload& workload_;
  Tensors all_;
  Reference reference_;
};

class Faults : public testing::TestWithParam<std::string> {};

TEST_P(Faults, ExceedTheBounds) {
  for (bool saturated : {false, true}) {
    Bench bench(GetParam(), saturated);
    mlir::OwningOpRef<mlir::ModuleOp> sound = bench.copy();
    EXPECT_TRUE(bench.passes(*sound->getOps<kda::KernelOp>().begin())) << "without a fault";
    for (const Fault& fault : faults) {
      if (fault.saturated != saturated) continue;
      mlir::OwningOpRef<mlir::ModuleOp> copy = bench.copy();
      kda::KernelOp kernel = *copy->getOps<kda::KernelOp>().begin();
      if (fault.inject(kernel) == 0) continue;
      EXPECT_FALSE(bench.passes(kernel)) << fault.name;
    }
  }
}

std::vector<std::string> spec_names() {
  std::vector<std::string> names;
  for (const SpecInfo& spec : shipped_specs()) names.push_back(spec.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Shipped, Faults, testing::ValuesIn(spec_names()), [](const auto& test) { return test.param; });

TEST(Faults, EachAppliesToSomeSpec) {
  std::map<std::string, int> found;
  for (const std::string& spec : spec_names()) {
    Bench bench(spec, false);
    for (const Fault& fault : faults) {
      mlir::OwningOpRef<mlir::ModuleOp> copy = bench.copy();
      found[fault.name] += fault.inject(*copy->getOps<kda::KernelOp>().begin());
    }
  }
  for (const Fault& fault : faults) EXPECT_GT(found[fault.name], 0) << fault.name;
}

}  // namespace
}  // namespace kdagen
