// SPDX-License-Identifier: Apache-2.0
// Derivatives where a formula has a kink or a pole: ties, bounds, norms of zero vectors.
#include <gtest/gtest.h>

#include "codegen/evaluator/evaluator.h"
#include "tests/common/kernels.h"
#include "tests/common/specs.h"

namespace kdagen {
namespace {
using evaluator::Arrays;
using evaluator::Instance;
using testing::Derived;

/// Gradients of y = formula(a, b) with cotangent 1, for one row of one head; `a` and `b` are repeated along the
/// columns.
struct Gradients {
  std::vector<double> da, db;
};
Gradients gradients(const std::function<Value(Value, Value, Axis)>& formula, std::vector<double> a,
                    std::vector<double> b) {
  Derived derived(
      [&](const Options& o) {
        Spec s("kink", "one row", o);
        Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
        Value x = s.input("a", f32, {t, h, d}), y = s.input("b", f32, {t, h, d});
        s.output("y", formula(x, y, d) + 0.0 * y).dtype(f32);
        return s;
      },
      {{"dim", "16"}, {"grads", "f32"}});
  a.resize(16, 1.0), b.resize(16, 1.0);
  Arrays arrays = {{"a", {a, {1, 1, 16}}}, {"b", {b, {1, 1, 16}}}, {"dy", {std::vector<double>(16, 1.0), {1, 1, 16}}}};
  auto result = evaluator::evaluate(derived.backward(), arrays, Instance::fixed(1, 1, 1));
  return {result.tensors.at("da").values, result.tensors.at("db").values};
}

// T059
TEST(Kinks, TiesOfMaxAndMinAreSharedHalfAndHalf) {
  for (auto f :
       {+[](Value a, Value b, Axis) { return max(a, b); }, +[](Value a, Value b, Axis) { return min(a, b); }}) {
    auto g = gradients(f, {2.0}, {2.0});
    EXPECT_EQ(g.da[0], 0.5);
    EXPECT_EQ(g.db[0], 0.5);
  }
  auto g = gradients([](Value a, Value b, Axis) { return max(a, b); }, {3, 1}, {2, 2});
  EXPECT_EQ(g.da[0], 1);
  EXPECT_EQ(g.da[1], 0);
  EXPECT_EQ(g.db[1], 1);
}

// T059
TEST(Kinks, ReluIsMaxWithZero) {
  auto g = gradients([](Value a, Value, Axis) { return relu(a); }, {-1, 0, 2}, {});
  EXPECT_EQ(g.da[0], 0);
  EXPECT_EQ(g.da[1], 0.5);
  EXPECT_EQ(g.da[2], 1);
}

// T062
TEST(Kinks, ClampPassesAtItsBounds) {
  auto g = gradients([](Value a, Value, Axis) { return clamp(a, 0, 1); }, {-1, 0, 0.5, 1, 2}, {});
  EXPECT_EQ(std::vector<double>(g.da.begin(), g.da.begin() + 5), (std::vector<double>{0, 1, 1, 1, 0}));
}

TEST(Kinks, MaximumOverColumnsIsSharedEvenly) {
  auto g = gradients([](Value a, Value, Axis d) { return max(a, d) + 0.0 * a; }, {5, 5, 5, 5}, {});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(g.da[i], 4.0) << "16 cotangents over 4 ties";
  EXPECT_EQ(g.da[4], 0.0);
}

// T017 T018
TEST(Kinks, NormOfZeroVectorBehindGuard) {
  std::vector<double> zeros(16, 0.0);
  auto guarded = gradients([](Value a, Value, Axis d) { return max(sqrt(sum(a * a, d)), 1e-10) + 0.0 * a; }, zeros, {});
  auto chosen = gradients(
      [](Value a, Value, Axis d) {
        Value s = sum(a * a, d);
        return select(less(s, 1e-20), 1e-10, sqrt(s)) + 0.0 * a;
      },
      zeros, {});
  auto squared = gradients(
      [](Value a, Value, Axis d) {
        Value norm = sqrt(sum(a * a, d));
        return norm * norm + 0.0 * a;
      },
      zeros, {});
  for (auto& g : {guarded, chosen, squared})
    for (double value : g.da) EXPECT_EQ(value, 0.0);
}

TEST(Kinks, DivisionByZeroInTheBranchNotTaken) {
  auto g = gradients([](Value a, Value b, Axis) { return select(equal(b, 0.0), 1.0, a / b); }, {3, 3}, {0, 2});
  EXPECT_EQ(g.da[0], 0.0);
  EXPECT_EQ(g.db[0], 0.0);
  EXPECT_EQ(g.da[1], 0.5);
  EXPECT_EQ(g.db[1], -0.75);
}

// x = (3, 4), eps = 0: y = (.6, .8); dy = (1, 0) gives dx = (.128, -.096).
TEST(Kinks, WorkedNorm) {
  std::vector<double> x(16, 0.0);
  x[0] = 3, x[1] = 4;
  auto g = gradients(
      [](Value a, Value, Axis d) { return a * rsqrt(sum(a * a, d)) * select(less(index(d), 0.5), 1.0, 0.0); }, x, {});
  EXPECT_NEAR(g.da[0], 0.128, 1e-15);
  EXPECT_NEAR(g.da[1], -0.096, 1e-15);
}

}  // namespace
}  // namespace kdagen
