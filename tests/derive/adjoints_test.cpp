// SPDX-License-Identifier: Apache-2.0
// Every adjoint rule against finite differences of the forward, in float64, on ragged tiles.
#include <gtest/gtest.h>

#include "codegen/evaluator/finite_differences.h"
#include "tests/common/kernels.h"
#include "tests/common/specs.h"

namespace kdagen {
namespace {
using evaluator::Instance;
using testing::Derived;

struct Operands {
  Value x, y, p;  // inputs over {t, h, d}, param over {h, d}
  Axis t, h, d;
};

struct Rule {
  const char* name;
  std::function<Value(const Operands&)> formula;
  double low = -1.5, high = 1.5;  // of every operand
  double step = 1.0 / 256;        // tiny where a kink must not be crossed
};
void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }
constexpr double tiny = 1e-5;

const Scan exclusive{.exclusive = true}, reverse{.reverse = true}, both{.exclusive = true, .reverse = true};

const Rule rules[] = {
    {"neg", [](auto& o) { return -o.x; }},
    {"exp", [](auto& o) { return exp(o.x); }},
    {"exp2", [](auto& o) { return exp2(o.x); }},
    {"log", [](auto& o) { return log(o.x); }, 0.5, 2},
    {"log1p", [](auto& o) { return log1p(o.x); }, -0.5, 2},
    {"sqrt", [](auto& o) { return sqrt(o.x); }, 0.5, 2},
    {"rsqrt", [](auto& o) { return rsqrt(o.x); }, 0.5, 2},
    {"sigmoid", [](auto& o) { return sigmoid(o.x); }, -4, 4},
    {"softplus", [](auto& o) { return softplus(o.x); }, -4, 4},
    {"tanh", [](auto& o) { return tanh(o.x); }, -3, 3},
    {"relu", [](auto& o) { return relu(o.x - 0.25); }, 0.5, 2},
    {"relu_below", [](auto& o) { return relu(o.x) + o.y; }, -2, -0.5},
    {"abs", [](auto& o) { return abs(o.x) * abs(-o.y); }, 0.5, 2},
    {"add", [](auto& o) { return o.x + o.p; }},
    {"sub", [](auto& o) { return o.x - o.p; }},
    {"mul", [](auto& o) { return o.x * o.y * o.p; }},
    {"square", [](auto& o) { return o.x * o.x; }},
    {"div", [](auto& o) { return o.x / o.p; }, 0.5, 2},
    {"reciprocal", [](auto& o) { return 1.0 / o.x; }, 0.5, 2},
    {"pow", [](auto& o) { return pow(o.x, o.y); }, 0.5, 2},
    {"pow_2", [](auto& o) { return pow(o.x, 2.0); }},
    {"pow_half", [](auto& o) { return pow(o.x, 1.5); }, 0.5, 2},
    {"exponential", [](auto& o) { return pow(1.5, o.x); }},
    {"min", [](auto& o) { return min(o.x, o.y + o.p); }, -1.5, 1.5, tiny},
    {"max", [](auto& o) { return max(o.x, o.y + o.p); }, -1.5, 1.5, tiny},
    {"select", [](auto& o) { return select(less(o.x, o.y), o.x * o.y, o.p); }, -1.5, 1.5, tiny},
    {"clamp", [](auto& o) { return clamp(o.x, -0.5, 0.5); }, -1.5, 1.5, tiny},
    {"round", [](auto& o) { return round(o.x, bf16) * o.x; }},
    {"detach", [](auto& o) { return detach(o.x * o.y) * o.x; }},
    {"sum_d", [](auto& o) { return sum(o.x * o.y, o.d) * o.x; }},
    {"sum_t", [](auto& o) { return sum(o.x * o.y, o.t) * o.x; }},
    {"sum_both", [](auto& o) { return sum(o.x * o.y, {o.t, o.d}) * o.x; }},
    {"total", [](auto& o) { return total(o.x, o.t) * o.y; }},
    {"max_d", [](auto& o) { return max(o.x, o.d) * o.x; }, -1.5, 1.5, tiny},
    {"max_both", [](auto& o) { return max(o.x, {o.t, o.d}) * o.x; }, -1.5, 1.5, tiny},
    {"cumsum", [](auto& o) { return cumsum(o.x, o.t) * o.y; }},
    {"cumsum_exclusive", [](auto& o) { return cumsum(o.x, o.t, exclusive) * o.y; }},
    {"cumsum_reverse", [](auto& o) { return cumsum(o.x, o.t, reverse) * o.y; }},
    {"cumsum_both", [](auto& o) { return cumsum(o.x, o.t, both) * o.y; }},
    {"last", [](auto& o) { return last(o.x * o.y, o.t) * o.x; }},
    {"shift_down", [](auto& o) { return shift(o.x, o.t, 2) * o.y; }},
    {"shift_up", [](auto& o) { return shift(o.x, o.t, -3, 0.5) * o.y; }},
    {"index", [](auto& o) { return o.x * (index(o.t) + index(o.d)); }},
    {"second_derivatives_of_norm", [](auto& o) { return o.x * rsqrt(sum(o.x * o.x, o.d) + 0.1); }},
    {"parameter_chain", [](auto& o) { return exp(o.p) * (o.x + o.p); }},
};

class Adjoint : public ::testing::TestWithParam<Rule> {};

TEST_P(Adjoint, AgreesWithFiniteDifferences) {
  const Rule& rule = GetParam();
  Derived derived(
      [&](const Options& o) {
        Spec s("rule", "one op", o);
        Operands v;
        v.t = s.rows("t"), v.h = s.heads("h"), v.d = s.features("d");
        v.x = s.input("x", f32, {v.t, v.h, v.d}), v.y = s.input("y", f32, {v.t, v.h, v.d}),
        v.p = s.param("p", {v.h, v.d});
        s.output("out", rule.formula(v) + 0.0 * (v.x + v.y + v.p)).dtype(f32);
        return s;
      },
      {{"chunk", "8"}, {"dim", "16"}});
  Instance instance = Instance::packed_row({5, 0, 11, 8, 1}, 2, 3);
  auto inputs = testing::draw_inputs(derived.forward(), instance, 7, rule.low, rule.high);
  evaluator::Arrays cotangents;
  for (const auto& [name, array] : testing::draw_inputs(derived.backward(), instance, 8))
    if (!inputs.count(name)) cotangents[name] = array;
  auto comparisons = evaluator::compare_with_finite_differences(derived.forward(), derived.backward(), inputs,
                                                                cotangents, instance, {.step = rule.step});
  ASSERT_EQ(comparisons.size(), 3u);
  for (const auto& comparison : comparisons) {
    EXPECT_FALSE(!(comparison.max_rel <= 1e-6)) << comparison.name << ": " << comparison.max_rel;
    EXPECT_FALSE(!(comparison.directional <= 1e-6)) << comparison.name << ": " << comparison.directional;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, Adjoint, ::testing::ValuesIn(rules),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kdagen
