// SPDX-License-Identifier: Apache-2.0
// What folding and printing may not change: T066-T068 and T070 of docs/traps.md.
#include <clocale>
#include <cstdlib>
#include <locale>
#include <numbers>
#include <sstream>

#include <gtest/gtest.h>

#include "runtime/process.h"
#include "tests/common/emulated_program.h"
#include "tests/common/kdagen_process.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

const Settings precise{{"dim", "16"}, {"dtype", "f32"}, {"out", "f32"}, {"grads", "f32"}};

constexpr double inf = std::numeric_limits<double>::infinity();

/// Formulas, each of an input of its own, so that none meets another's infinities.
using Formulas = std::vector<std::pair<std::string, std::function<Value(Value, Axis)>>>;

/// Runs both passes on one row whose columns are `x` (repeated), with cotangents `dy`: values by the formula's name,
/// and gradients by "dx of" it, by column.
std::map<std::string, std::vector<double>> both_passes(const Formulas& formulas, const std::vector<double>& x,
                                                       double dy = 1, double upper = inf) {
  EmulatedProgram program(
      [&](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        for (const auto& [name, formula] : formulas)
          s.output(name, formula(s.input("x_" + name, {t, h, d}).bounds(-inf, upper), t));
      },
      precise);
  Call call(program, {1, 1, 1});
  for (const auto& [name, formula] : formulas)
    call.set("x_" + name, [&](const At& at) { return x[at.d % x.size()]; }).set("d" + name, dy);
  call.forward().backward();
  std::map<std::string, std::vector<double>> result;
  for (const auto& [name, formula] : formulas) {
    result[name] = values_of(call.tensor(name));
    result["dx of " + name] = values_of(call.tensor("dx_" + name));
    result[name].resize(x.size()), result["dx of " + name].resize(x.size());
  }
  return result;
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

}  // namespace

TEST(Folding, T066IdentitiesThatFloatsDoNotHave) {
  const std::vector<double> x{1, inf, -inf, nan_value, -0.0, 0};
  using Float = std::function<float(float)>;
  struct Identity {
    std::string name;
    std::function<Value(Value)> write;
    Float value, slope;  // slope: by the chain rule, but 0 behind a 0
  };
  const std::vector<Identity> identities{
      {"times_zero", [](Value x) { return x * 0.0 + 1.0; }, [](float v) { return v * 0.0f + 1.0f; },
       [](float) { return 0.0f; }},
      {"minus_itself", [](Value x) { return x - x; }, [](float v) { return v - v; }, [](float) { return 0.0f; }},
      {"over_itself", [](Value x) { return x / x; }, [](float v) { return v / v; },
       [](float v) { return 1 / v - v / v / v; }},
      {"zero_log", [](Value x) { return 0.0 * log(x); }, [](float v) { return 0.0f * std::log(v); },
       [](float) { return 0.0f; }},
      {"twice_and_back", [](Value x) { return (x + x) - x; }, [](float v) { return (v + v) - v; },
       [](float) { return 1.0f; }},
      {"inverse_twice", [](Value x) { return 1.0 / (1.0 / x); }, [](float v) { return 1 / (1 / v); },
       [](float v) { return v == 0 ? 0 : 1 / (1 / v) / (1 / v) / v / v; }},
      {"square_root_squared", [](Value x) { return sqrt(x) * sqrt(x); },
       [](float v) { return std::sqrt(v) * std::sqrt(v); },
       [](float v) { return v == 0 ? 0 : std::sqrt(v) * (0.5f / std::sqrt(v)) * 2; }}};
  Formulas formulas;
  for (const Identity& identity : identities)
    formulas.emplace_back(identity.name, [&](Value x, Axis) { return identity.write(x); });
  const auto result = both_passes(formulas, x);
  const auto expect_alike = [](double found, float expected, const std::string& what) {
    EXPECT_EQ(std::isnan(found), std::isnan(expected)) << what << " gives " << found << ", not " << expected;
    if (std::isfinite(expected)) {
      EXPECT_NEAR(found, expected, 2e-7) << what;
    } else if (!std::isnan(expected)) {
      EXPECT_EQ(found, expected) << what;
    }
  };
  for (const Identity& identity : identities)
    for (size_t i = 0; i < x.size(); ++i) {
      const float v = static_cast<float>(x[i]);
      const std::string what = fmt::format("{} of {}", identity.name, v);
      expect_alike(result.at(identity.name)[i], identity.value(v), what);
      expect_alike(result.at("dx of " + identity.name)[i], identity.slope(v), "slope of " + what);
    }
  EXPECT_TRUE(same(result.at("times_zero")[4], 1));
}

TEST(Folding, T067SubnormalPowersOfTwo) {
  const std::vector<double> x{-126, -127, -149, -150, -151, -126.5, -140.25, -149.4, 127, -1000};
  const auto result = both_passes({{"y", [](Value x, Axis) { return exp2(x); }},
                                   {"g_c", [](Value x, Axis t) { return exp2(min(cumsum(x, t), 127.5)); }},
                                   {"e", [](Value x, Axis) { return exp(x * std::numbers::ln2); }}},
                                  x, 1, 127);
  // What is not a subnormal number is exact to a few units, what is one to its only digit.
  const auto expect_power = [](double found, double exponent, double factor, const std::string& what) {
    const double expected = factor * std::exp2(exponent), unit = std::max(expected * 0x1p-21, 0x1p-149);
    if (exponent == std::rint(exponent) && std::abs(factor) == 1) {
      EXPECT_EQ(found, exponent >= -149 ? std::exp2(exponent) : 0) << what;
    } else if (exponent >= -149) {
      EXPECT_NE(found, 0) << what << " is flushed";
    }
    EXPECT_NEAR(found, expected, unit) << what;
  };
  for (size_t i = 0; i < x.size(); ++i) {
    const double rounded = static_cast<float>(x[i]);
    for (const char* name : {"y", "g_c"}) {
      expect_power(result.at(name)[i], rounded, 1, fmt::format("{} of {}", name, rounded));
      expect_power(result.at("dx of " + std::string(name))[i], rounded, std::numbers::ln2,
                   fmt::format("slope of {} of {}", name, rounded));
    }
    const double e = std::exp2(rounded);  // the product with ln2 is rounded: |x| 2^-24
    EXPECT_NEAR(result.at("e")[i], e, std::max(1e-5 * e, 0x1p-149)) << rounded;
    if (rounded > -149.5) {
      EXPECT_NE(result.at("e")[i], 0) << rounded;
    }
  }
}

TEST(Folding, T068GuardsStay) {
  const std::vector<double> x{1, inf, nan_value, 3.3e38, -2, -inf, 0};
  const auto result = both_passes({{"nan", [](Value x, Axis) { return select(isnan(x), 0.0, x); }},
                                   {"huge", [](Value x, Axis) { return select(x > 3e38, -1.0, x); }},
                                   {"itself", [](Value x, Axis) { return select(equal(x, x), 1.0, 0.0 * x); }},
                                   {"square", [](Value x, Axis) { return pow(select(isnan(x), 0.0, x), 2.0); }},
                                   {"inverse", [](Value x, Axis) { return select(equal(x, 0.0), 0.0, 1.0 / x); }},
                                   {"logarithm", [](Value x, Axis) { return select(x > 0.0, log(x), -1.0); }}},
                                  x, 3);
  const std::map<std::string, std::vector<double>> expected{{"nan", {1, inf, 0, 3.3e38, -2, -inf, 0}},
                                                            {"dx of nan", {3, 3, 0, 3, 3, 3, 3}},
                                                            {"huge", {1, -1, nan_value, -1, -2, -inf, 0}},
                                                            {"dx of huge", {3, 0, 3, 0, 3, 3, 3}},
                                                            {"itself", {1, 1, nan_value, 1, 1, 1, 1}},
                                                            {"dx of itself", {0, 0, 0, 0, 0, 0, 0}},
                                                            {"square", {1, inf, 0, inf, 4, inf, 0}},
                                                            {"dx of square", {6, inf, 0, inf, -12, -inf, 0}},
                                                            {"inverse", {1, 0, nan_value, 1 / 3.3e38, -0.5, -0.0, 0}},
                                                            {"dx of inverse", {-3, 0, nan_value, 0, -0.75, 0, 0}},
                                                            {"logarithm", {0, inf, -1, std::log(3.3e38), -1, -1, -1}},
                                                            {"dx of logarithm", {3, 0, 0, 3 / 3.3e38, 0, 0, 0}}};
  for (const auto& [name, values] : expected)
    for (size_t i = 0; i < x.size(); ++i) {
      const double found = result.at(name)[i];
      EXPECT_EQ(std::isnan(found), std::isnan(values[i])) << name << " at " << x[i];
      if (std::isfinite(values[i])) {
        EXPECT_NEAR(found, values[i], 1e-6 * std::abs(values[i])) << name << " at " << x[i];
      } else if (!std::isnan(values[i])) {
        EXPECT_EQ(found, values[i]) << name << " at " << x[i];
      }
    }
}

namespace {

const std::vector<double> constants{1.4426950408889634, 1e-6, 1e-12, 1e30, 0.1, 16777217.0, 3.0e38, 1.17549435e-38};

void of_constants(Spec& s, const Options& o, Axis t, Axis h, Axis d) {
  Value x = s.input("x", {t, h, d});
  for (size_t i = 0; i < constants.size(); ++i) s.output("y" + std::to_string(i), x * constants[i]);
  s.output("option", x * o.number("slope", 0.1, 0, 1));
}

/// Everything that prints or reads numbers: the graph, texts and manifests of both passes.
std::string everything() {
  EmulatedProgram program(of_constants, with(precise, {{"slope", "0.30000000000000004"}}));
  std::string all = program.graph();
  for (const Pass pass : {Pass::fwd, Pass::bwd}) {
    const auto [text, manifest] = program.emit(pass);
    all += text + runtime::dump_manifest(manifest) +
           runtime::dump_manifest(runtime::load_manifest(runtime::dump_manifest(manifest)));
  }
  return all;
}

struct Comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

/// A German locale made by localedef into a folder of its own; "" where that cannot be done.
std::string compiled_locale(const std::filesystem::path& folder) {
  const std::string path = (folder / "de_DE.UTF-8").string();
  runtime::run_process({"/bin/sh", "-c", "localedef -i de_DE -f UTF-8 \"$0\" >/dev/null 2>&1", path});
  return std::filesystem::exists(path) ? "de_DE.UTF-8" : "";
}

}  // namespace

TEST(Folding, T070LocaleAndDigits) {
  const std::string plain = everything();
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
  const std::string comma = everything();
  std::ostringstream shown;
  shown << 1234.5;
  std::locale::global(before);
  EXPECT_EQ(shown.str(), "1.234,5") << "the locale did not take";
  EXPECT_TRUE(comma == plain);
  EmulatedProgram program(of_constants, with(precise, {{"slope", "0.30000000000000004"}}));
  Call call(program, {1, 1, 1});
  call.set("x", 1).forward();
  for (size_t i = 0; i < constants.size(); ++i)
    EXPECT_EQ(call("y" + std::to_string(i)), static_cast<float>(constants[i]));
  EXPECT_EQ(call("option"), static_cast<float>(0.30000000000000004));
}

// The C library's locale, in this process and for the command.
TEST(Folding, T070LocaleOfTheSystem) {
  const Scratch folder = scratch();
  const std::string name = compiled_locale(folder.path());
  if (name.empty()) GTEST_SKIP() << "localedef makes no de_DE locale here";
  const std::string plain = everything();
  setenv("LOCPATH", folder.path().c_str(), 1);
  const bool taken = std::setlocale(LC_ALL, name.c_str()) != nullptr;
  char shown[16] = "";
  std::snprintf(shown, sizeof shown, "%.1f", 0.5);
  const std::string comma = taken ? everything() : "";
  std::setlocale(LC_ALL, "C");
  unsetenv("LOCPATH");
  ASSERT_STREQ(shown, "0,5") << "the locale did not take";
  EXPECT_TRUE(comma == plain);
  std::vector<std::string> written;
  for (const Environment& environment :
       {Environment{{"LC_ALL", "C"}}, Environment{{"LC_ALL", name}, {"LOCPATH", folder.path().string()}}}) {
    const Outcome outcome = kdagen::testing::kdagen(
        {"emit", "gla", "--set", "gate_divisor=15.5", "-o", (folder.path() / "out").string()}, environment);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    written.push_back(outcome.out);
    for (const std::string& file : listing(folder.path() / "out"))
      written.back() += slurp(folder.path() / "out" / file);
    const Outcome check = kdagen::testing::kdagen(
        {"check", "l2norm", "--pass", "fwd", "--on", "cpu", "--tokens", "5", "--set", "eps=1e-5"}, environment);
    EXPECT_EQ(check.code, 0) << check.err;
    written.back() += check.out;
  }
  EXPECT_EQ(written[0], written[1]);
}
