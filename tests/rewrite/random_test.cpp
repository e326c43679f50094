// SPDX-License-Identifier: Apache-2.0
// Specs drawn at random: scans in both directions, decays, products and sums that share values, norms, parameters. Each is
// derived, rewritten and verified, and the rewritten program equals the unrewritten one in float64. A failure names the
// seed; RandomSpec(seed) draws the same spec again.
#include <cmath>

#include <gtest/gtest.h>

#include "codegen/evaluator/finite_differences.h"
#include "codegen/pipeline.h"
#include "kdagen/kdagen.h"
#include "tests/common/kernels.h"

namespace kdagen {
namespace {
using evaluator::Arrays;
using evaluator::Instance;
using kdagen::testing::draw_inputs;
using kdagen::testing::Draws;

class RandomSpec {
 public:
  explicit RandomSpec(uint64_t seed) : draws_(seed) {}

  std::string graph() {
    const Options options({{"dim", "16"}, {"chunk", "8"}});
    Spec s("random", "", options);
    t_ = s.rows("t"), h_ = s.heads("h"), d_ = s.features("d");
    for (const char* name : {"q", "k", "v"}) values_.push_back(s.input(name, f32, {t_, h_, d_}));
    Value a = s.input("a", f32, {t_, h_, d_}), row = s.input("row", f32, {t_, h_});
    Value bias = s.param("bias", {h_, d_}), weight = s.param("weight", {d_});
    parameters_ = {bias, weight, s.param("rate", {h_})};
    gates_ = {a, a + bias, row, values_[0]};
    rows_ = {row};
    add_decays();
    for (int step = 8 + below(16); step > 0; --step) add_value();
    for (int i = 0; i < 3; ++i) s.let("named_" + std::to_string(i), 1.0 * latest());
    for (int i = 0, count = 2 + below(4); i < count; ++i) s.output("y_" + std::to_string(i), latest() * 1.0).dtype(f32);
    if (below(2)) s.output("end", total(latest(), t_)).dtype(f32);
    Value all = (values_[0] + values_[1] * weight + values_[2]) * parameters_[2] + a * bias * row;  // every tensor reaches an output
    s.output("all", all).dtype(f32);
    return s.graph();
  }

 private:
  int below(int count) { return int(draws_.uniform(0, count)); }
  double size() { return 0.25 * (1 + below(4)) * (below(2) ? 1 : -1); }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[below(int(values.size()))];
  }
  /// One of the last values more often than an early one.
  Value latest() { return below(3) ? values_[values_.size() - 1 - below(std::min(5, int(values_.size())))] : one_of(values_); }
  /// At most 1 in size, so that repeated products stay representable.
  Value small() { return tanh(latest()); }

  /// A gate, its sums along the chunk, and the powers of two that decay products are made of.
  void add_decays() {
    Value g = -0.25 * sigmoid(one_of(gates_));
    Value c = cumsum(g, t_, {.exclusive = below(3) == 0, .reverse = below(3) == 0});
    Value end = below(2) ? total(g, t_) : last(c, t_);
    exponents_.push_back(c);
    std::vector<Value> forms = {exp2(c), exp2(-c), exp2(end - c), exp(c), exp2(end), exp2(c) * exp2(end)};
    for (int i = 0; i < 3; ++i) decays_.push_back(one_of(forms));
  }

  void add_value() {
    const int kind = below(14);
    if (kind < 4) values_.push_back(latest() * one_of(decays_));
    else if (kind == 4) values_.push_back(latest() + size() * latest());
    else if (kind == 5) values_.push_back(latest() - latest() * one_of(decays_));
    else if (kind == 6) values_.push_back(latest() * small());
    else if (kind == 7) values_.push_back(latest() * one_of(parameters_));
    else if (kind == 8) values_.push_back(latest() * (size() * one_of(rows_)));
    else if (kind == 9) rows_.push_back(sum(small() * latest(), d_));
    else if (kind == 10) values_.push_back(l2norm(latest(), d_));
    else if (kind == 11) values_.push_back(silu(latest()));
    else if (kind == 12) values_.push_back(cumsum(size() * latest(), t_, {.reverse = below(2) == 0}));
    else if (below(2)) add_decays();
    else values_.push_back(latest() * one_of(exponents_));
  }

  Draws draws_;
  Axis t_, h_, d_;
  std::vector<Value> values_, rows_, gates_, decays_, exponents_, parameters_;
};

Compilation compiled(uint64_t seed, Direction direction) {
  CompileOptions options;
  options.operands = Operands::exact;
  return Compilation(RandomSpec(seed).graph(), direction, options);
}

/// The firings of factored-decay.
int expect_unchanged(uint64_t seed, Direction direction) {
  Compilation program = compiled(seed, direction);
  kda::KernelOp rewritten, derived = program.kernel(Stage::derived);
  EXPECT_NO_THROW(rewritten = program.kernel(Stage::rewritten));  // verifies
  if (!rewritten) return 0;
  Instance instance = Instance::packed_row({11, 0, 3}, 2, 1);
  Arrays inputs = draw_inputs(derived, instance, seed + 1000, -1.2, 1.2);
  auto found = evaluator::compare_kernels(rewritten, derived, inputs, instance);
  EXPECT_FALSE(found.empty());
  for (const auto& output : found) EXPECT_FALSE(!(output.rel_l2 <= 1e-9)) << output.name << ": " << output.rel_l2;
  return program.rewrites().firings("factored-decay");
}

TEST(RandomSpecs, RewritingChangesNothing) {
  int factored = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_unchanged(seed, Direction::fwd);
    factored += expect_unchanged(seed, Direction::bwd) > 0;
  }
  EXPECT_GE(factored, 20);  // or the specs drawn would miss their purpose
}

}  // namespace
}  // namespace kdagen
