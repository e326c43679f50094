// SPDX-License-Identifier: Apache-2.0
// The evaluator on a shipped spec with a realistic workload: derived gradients against the workload's own, float32
// against the error bound, speed.
#include <chrono>
#include <cmath>

#include <gtest/gtest.h>

#include "codegen/derive/derive.h"
#include "codegen/evaluator/finite_differences.h"
#include "tests/common/shipped_spec.h"

namespace kdagen::evaluator {
namespace {
using kdagen::testing::ImportedSpec;

TEST(EvaluatorOnSpecs, DerivedGradientsAreTheWorkloadsOwn) {
  for (const char* handover : {"raw", "fused"}) {
    ImportedSpec spec("kda_k1", {{"dim", "32"}, {"handover", handover}});
    auto backward = derive(spec.forward(), spec.options);
    Instance instance = Instance::packed_row({37, 0, 20}, 2, 3);
    Problem problem = spec.problem(instance);
    const Workload& workload = find_workload("kda_k1");
    for (const char* regime : {"typical", "mixed"}) {
      Tensors inputs = workload.inputs(problem, regime, 3);
      Tensors exact = workload.end_to_end(problem, inputs, {});
      Arrays arrays;
      kdagen::testing::add(arrays, inputs);
      kdagen::testing::add(arrays, workload.upstream(problem, inputs, {}));
      EvaluateOptions options;
      options.round_inputs = false;
      Result result = evaluate(only_kernel(*backward), arrays, instance, options);
      ASSERT_GE(exact.size(), 7u);
      for (const auto& [name, tensor] : exact) {
        Comparison found = compare(name, result.tensors[name].values, tensor.values);
        EXPECT_FALSE(!(found.rel_l2 <= 1e-9)) << handover << " " << regime << " " << name << ": " << found.rel_l2;
      }
    }
  }
}

TEST(EvaluatorOnSpecs, Float32StaysWithinTheBound) {
  ImportedSpec spec("kda_k1", {{"out", "f32"}, {"grads", "f32"}});
  auto backward = derive(spec.forward(), spec.options);
  Instance instance = Instance::packed_row({80, 0, 50}, 2, 3);
  Problem problem = spec.problem(instance);
  const Workload& workload = find_workload("kda_k1");
  for (const std::string& regime : workload.regimes()) {
    Tensors inputs = workload.inputs(problem, regime, 3);
    Arrays arrays;
    kdagen::testing::add(arrays, inputs);
    kdagen::testing::add(arrays, workload.upstream(problem, inputs, {}));
    for (kda::KernelOp kernel : {spec.forward(), only_kernel(*backward)}) {
      EvaluateOptions exact, single;
      exact.running_error = true;
      single.arithmetic = Arithmetic::f32;
      single.store_rounding = true;
      Result reference = evaluate(kernel, arrays, instance, exact), result = evaluate(kernel, arrays, instance, single);
      for (const auto& [name, array] : reference.tensors) {
        const std::vector<double>& bound = reference.error_bounds[name].values;
        double error2 = 0, bound2 = 0;
        for (size_t i = 0; i < bound.size(); ++i) {
          double error = std::fabs(result.tensors[name].values[i] - array.values[i]);
          ASSERT_FALSE(!(error <= bound[i]))
              << regime << " " << name << "[" << i << "]: " << error << " over " << bound[i];
          error2 += error * error, bound2 += bound[i] * bound[i];
        }
        if (regime != "bound" && (name == "dq" || name == "dg_raw")) {
          EXPECT_LT(bound2 / error2, 150 * 150) << regime << " " << name << ": absurdly loose";
        }
      }
    }
  }
}

TEST(EvaluatorOnSpecs, IsFastEnough) {
  ImportedSpec spec("kda_k1", {{"grads", "f32"}});
  auto backward = derive(spec.forward(), spec.options);
  Instance instance = Instance::packed_row({120, 33, 147}, 4);
  Arrays inputs = kdagen::testing::draw_inputs(only_kernel(*backward), instance, 4);
  EvaluateOptions options;
  options.running_error = true;
  auto start = std::chrono::steady_clock::now();
  evaluate(only_kernel(*backward), inputs, instance, options);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 3.0) << "generous: the machine may be busy";
}

}  // namespace
}  // namespace kdagen::evaluator
