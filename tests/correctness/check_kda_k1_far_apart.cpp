// SPDX-License-Identifier: Apache-2.0
// k_d = k_n*2^{g_c} and k_i = k_n*2^{-g_c} a factor of 1e20 apart: what float32 makes of the gate's gradient where each
// term is formed and added up by itself (the backward as derived), and where the terms are factored (rewritten).
#include <cmath>
#include <iostream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/pipeline.h"
#include "tools/check/cotangents.h"
#include "tools/check/problem.h"
#include "tools/spec_source.h"

namespace kdagen {
namespace {

struct Errors {
  double rel_l2, max_rel, of_bound;  ///< of_bound: the largest |error| / bound of an element
};

Errors errors_of(const std::vector<double>& actual, const std::vector<double>& exact,
                 const std::vector<double>& bounds) {
  double difference = 0, size = 0, largest = 0, largest_difference = 0, of_bound = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double error = std::abs(actual.at(i) - exact[i]);
    if (!std::isfinite(error)) return {INFINITY, INFINITY, INFINITY};
    difference += error * error;
    size += exact[i] * exact[i];
    largest = std::max(largest, std::abs(exact[i]));
    largest_difference = std::max(largest_difference, error);
    if (error > 0) of_bound = std::max(of_bound, error / bounds.at(i));
  }
  return {std::sqrt(difference / size), largest_difference / largest, of_bound};
}

class FarApart {
 public:
  FarApart() {
    inputs_ = workload_.inputs(problem_, "typical", 3);
    // 2.06 log2 units a token, so that g_c is -33 in a chunk's last row
    for (double& value : inputs_.at("dt_bias").values) value = -0.915;
    for (double& value : inputs_.at("g_raw").values) value = round_to(value / 16, "f32");
    for (auto& [name, tensor] : store_cotangents(workload_.upstream(problem_, inputs_, {}), unrewritten(), problem_))
      inputs_[name] = tensor;
  }

  evaluator::Result forward() { return evaluate(forward_.kernel(Stage::rewritten), {}); }
  evaluator::Result evaluate(kda::KernelOp kernel, const evaluator::EvaluateOptions& options) {
    return evaluator::evaluate(kernel, arrays_of(inputs_), instance_of(problem_.shape), options);
  }
  kda::KernelOp unrewritten() { return backward_.kernel(Stage::derived); }
  kda::KernelOp rewritten() { return backward_.kernel(Stage::rewritten); }
  Compilation& backward() { return backward_; }

 private:
  static CompileOptions options() {
    CompileOptions options;
    options.operands = Operands::exact;
    options.grads = "f32";
    return options;
  }
  static Shape shape() {
    Shape shape;
    shape.seqlens = {64};
    shape.heads = 2;
    return shape;
  }

  std::string graph_ = graph_bytes("kda_k1", {{"dtype", "f32"}, {"out", "f32"}});
  Compilation forward_{graph_, Direction::fwd, options()}, backward_{graph_, Direction::bwd, options()};
  Problem problem_ = problem_of(graph_, forward_.kernel(Stage::kda), shape());
  const Workload& workload_ = find_workload("kda_k1");
  Tensors inputs_;
};

TEST(FarApart, DecayFactors1e20Apart) {
  FarApart bench;
  const evaluator::Arrays outputs = bench.forward().tensors;
  double apart = 0;
  for (size_t i = 0; i < outputs.at("k_d").values.size(); ++i)
    apart = std::max(apart, outputs.at("k_i").values[i] / outputs.at("k_d").values[i]);
  EXPECT_GE(apart, 1e20);
  EXPECT_LE(apart, 1e22);
  ASSERT_EQ(bench.backward().rewrites().firings("factored-decay"), 1);

  evaluator::EvaluateOptions exact, single;
  exact.running_error = true;
  single.arithmetic = evaluator::Arithmetic::f32;
  const evaluator::Arrays reference = bench.evaluate(bench.unrewritten(), {}).tensors;
  for (auto [form, kernel] : {std::pair("naive", bench.unrewritten()), std::pair("factored", bench.rewritten())}) {
    const evaluator::Arrays bounds = bench.evaluate(kernel, exact).error_bounds,
                            actual = bench.evaluate(kernel, single).tensors;
    for (const char* name : {"dk", "dg_raw", "ddt_bias", "dA_log"}) {
      const Errors errors = errors_of(actual.at(name).values, reference.at(name).values, bounds.at(name).values);
      std::cout << fmt::format(
          "k_i/k_d up to {:.1e}, {:8} {:8}: ||error||/||x|| {:.2e}, max {:.2e}, {:.3f} of the bound\n", apart, form,
          name, errors.rel_l2, errors.max_rel, errors.of_bound);
      if (form == std::string("naive")) continue;
      EXPECT_FALSE(!(errors.of_bound <= 1)) << name;
    }
  }
}

}  // namespace
}  // namespace kdagen
