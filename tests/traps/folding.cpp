// SPDX-License-Identifier: Apache-2.0
// What folding, printing and naming may not change: T066-T071 of docs/traps.md.
#include <clocale>
#include <locale>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/emulated_program.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

const Settings precise{{"dim", "16"}, {"dtype", "f32"}, {"out", "f32"}, {"grads", "f32"}};

constexpr double inf = std::numeric_limits<double>::infinity();

/// Runs the forward on one row whose columns are `x` (repeated); its outputs by column.
std::map<std::string, std::vector<double>> forward(const test::Body& body, const std::vector<double>& x) {
  EmulatedProgram program(body, precise);
  Call call(program, {1, 1, 1});
  call.set("x", [&](const At& at) { return x[at.d % x.size()]; }).forward();
  std::map<std::string, std::vector<double>> result;
  for (const std::string& name : call.outputs(Pass::fwd)) {
    result[name] = values_of(call.tensor(name));
    result[name].resize(x.size());
  }
  return result;
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

}  // namespace

TEST(Folding, T066IdentitiesThatFloatsDoNotHave) {
  const std::vector<double> x{1, inf, -inf, nan_value, -0.0, 0};
  const auto result = forward(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        s.output("times_zero", x * 0.0 + 1.0);
        s.output("minus_itself", x - x);
        s.output("over_itself", x / x);
        s.output("zero_log", 0.0 * log(x));
        s.output("twice_and_back", (x + x) - x);
        s.output("inverse_twice", 1.0 / (1.0 / x));
      },
      x);
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = static_cast<float>(x[i]);
    EXPECT_TRUE(same(result.at("times_zero")[i], v * 0.0f + 1.0f)) << x[i] << " gives " << result.at("times_zero")[i];
    EXPECT_EQ(std::isnan(result.at("minus_itself")[i]), std::isnan(v - v)) << x[i];
    EXPECT_TRUE(same(result.at("over_itself")[i], v / v) ||
                (std::isnan(v / v) && std::isnan(result.at("over_itself")[i])))
        << x[i];
    EXPECT_EQ(std::isnan(result.at("zero_log")[i]), std::isnan(0.0f * std::log(v))) << x[i];
    EXPECT_EQ(std::isnan(result.at("twice_and_back")[i]), std::isnan((v + v) - v)) << x[i];
    EXPECT_EQ(std::isnan(result.at("inverse_twice")[i]), std::isnan(1.0f / (1.0f / v))) << x[i];
  }
}

TEST(Folding, T067SubnormalPowersOfTwo) {
  const std::vector<double> x{-126, -127, -149, -151, -126.5, 127};
  const auto result = forward(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}).bounds(-1000, 127);
        s.output("y", exp2(x));
        s.output("g_c", exp2(min(cumsum(x, t), 127.0)));
        s.output("e", exp(x * 0.5) * exp2(-0.5));
      },
      x);
  for (const char* name : {"y", "g_c"})
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(result.at(name)[i], std::exp2(x[i]), 0x1p-149 + 1e-6 * std::exp2(x[i])) << name << " " << x[i];
}

TEST(Folding, T068GuardsStay) {
  const std::vector<double> x{1, inf, nan_value, 3.3e38, -2};
  const auto result = forward(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        s.output("nan", select(isnan(x), 0.0, x));
        s.output("huge", select(x > 3e38, -1.0, x));
        s.output("itself", select(equal(x, x), 1.0, 0.0));
      },
      x);
  const std::vector<double> nan{1, inf, 0, 3.3e38, -2}, huge{1, -1, nan_value, -1, -2}, itself{1, 1, 0, 1, 1};
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_TRUE(same(result.at("nan")[i], static_cast<float>(nan[i]))) << x[i];
    EXPECT_TRUE(same(result.at("huge")[i], huge[i])) << x[i];
    EXPECT_EQ(result.at("itself")[i], itself[i]) << x[i];
  }
}

// Keywords, the names of libraries and of the text's own things, and names that could be made into one.
TEST(Folding, T069T071NamesOfAllKinds) {
  const std::vector<std::string> names{
      "double", "float", "asm", "new", "template",  "int",      "half", "exp", "log",  "min",  "threadIdx",
      "NULL",   "main",  "if",  "if_", "_a",        "a_",       "a1",   "a_1", "a_1_", "tile", "rows",
      "shared", "x",     "x_",  "x_1", "arguments", "KD_ENTRY", "bf16", "sum", "warp", "lane"};
  std::vector<std::string> taken, refused;
  const auto body = [&](const std::vector<std::string>& wanted) -> test::Body {
    return [wanted](Spec& s, const Options&, Axis t, Axis h, Axis d) {
      Value all = s.input("first", {t, h, d});
      double weight = 1;
      for (size_t i = 0; i + 1 < wanted.size(); i += 2) {
        Value a = s.input(wanted[i], {t, h, d});
        weight += 1;
        all = all + weight * s.let(wanted[i + 1], a * a);
      }
      s.output("y", all);
    };
  };
  for (const std::string& name : names) {
    try {
      test::graph_of(
          [&](Spec& s, const Options&, Axis t, Axis h, Axis d) { s.output("y", s.input(name, {t, h, d}) * 2.0); });
      taken.push_back(name);
    } catch (const SpecError& error) {
      EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("folding.cpp"), ::testing::HasSubstr(name)));
    }
  }
  EXPECT_GE(taken.size(), 24u);
  EmulatedProgram program(body(taken), precise);
  Call call(program, {1, 3, 1});
  for (size_t i = 0; i < taken.size(); ++i)
    call.set(taken[i],
             [=](const At& at) { return static_cast<double>((at.row + at.d + static_cast<int64_t>(i)) % 7); });
  call.set("first", 0).set("dy", 1).forward().backward();
  for (int64_t row = 0; row < 3; ++row) {
    double y = 0, weight = 1;
    for (size_t i = 0; i + 1 < taken.size(); i += 2) {
      const double a = call(taken[i], row);
      y += ++weight * a * a;
      EXPECT_EQ(call("d" + taken[i], row), 2 * weight * a) << taken[i];
    }
    EXPECT_EQ(call("y", row), y);
  }
}

TEST(Folding, T070LocaleAndDigits) {
  const std::vector<double> constants{1.4426950408889634, 1e-6, 1e-12, 1e30, 0.1, 16777217.0, 3.0e38, 1.17549435e-38};
  const test::Body body = [&](Spec& s, const Options& o, Axis t, Axis h, Axis d) {
    Value x = s.input("x", {t, h, d});
    for (size_t i = 0; i < constants.size(); ++i) s.output("y" + std::to_string(i), x * constants[i]);
    s.output("option", x * o.number("slope", 0.1, 0, 1));
  };
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  EmulatedProgram plain(body, with(precise, {{"slope", "0.30000000000000004"}}));
  const std::string text = plain.kernel(Pass::fwd).text();
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
  std::setlocale(LC_ALL, "de_DE.UTF-8");  // where it is installed
  EmulatedProgram comma(body, with(precise, {{"slope", "0.30000000000000004"}}));
  EXPECT_EQ(comma.graph(), plain.graph());
  EXPECT_EQ(comma.kernel(Pass::fwd).text(), text);
  std::locale::global(before);
  std::setlocale(LC_ALL, "C");
  Call call(plain, {1, 1, 1});
  call.set("x", 1).forward();
  for (size_t i = 0; i < constants.size(); ++i)
    EXPECT_EQ(call("y" + std::to_string(i)), static_cast<float>(constants[i]));
  EXPECT_EQ(call("option"), static_cast<float>(0.30000000000000004));
}
