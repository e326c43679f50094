// SPDX-License-Identifier: Apache-2.0
#include "tests/error/dsl_expect.h"

using namespace kdagen;

TEST(ValueErrors, Constants) {
  EXPECT_REFUSED(x * NAN, "the constant is not a number; pass a finite number of float's range");
  EXPECT_REFUSED(x + INFINITY, "the constant is beyond the range of float; pass a finite number of float's range");
  EXPECT_REFUSED(1e39 * x, "the constant is beyond the range of float; pass a finite number of float's range");
  EXPECT_REFUSED(x / 0.0, "division by the constant zero; divide by something else");
  EXPECT_REFUSED(x * (1.0 / o.number("zero", 0)),
                 "the constant divides by zero; pass a finite number of float's range");
  EXPECT_REFUSED(clamp(x, 2, 1), "clamp needs finite lower <= upper; for one side use min or max");
  EXPECT_REFUSED(clamp(x, -INFINITY, 1), "clamp needs finite lower <= upper; for one side use min or max");
  EXPECT_REFUSED(s.input("b", {t, h}).bounds(1, NAN), "bounds of b: lower must not be above upper, nor NaN");
  EXPECT_REFUSED(s.input("b", {t, h}).optional(NAN), "optional: the value when absent is not a finite float");
}

TEST(ValueErrors, PowersOfSymbolsAreLimited) {
  EXPECT_REFUSED(Constant c = ln2; for (int i = 0; i < 1000; ++i) c = c / log2e;
                 x * c, "the power of ln2 is beyond +-1000; pass a finite number of float's range");
}

TEST(ValueErrors, OneSymbolHasOneValue) {
  EXPECT_REFUSED(x * (o.number("a", 1) * Options(Options::Values{{"a", "2"}}).number("a", 1)),
                 "the constant a has two values, from two option sets; pass a finite number of float's range");
}

TEST(ValueErrors, TruthValues) {
  EXPECT_REFUSED(x + (x > 0),
                 "add takes numbers, but the value of line LINE is a truth value; turn it into one with "
                 "select(condition, 1.0, 0.0)");
  EXPECT_REFUSED(select(x, 1, 2),
                 "select takes a truth value first, but x (line LINE) is a number; compare it: less, "
                 "less_equal, equal or isnan");
  EXPECT_REFUSED(s.output("z", x > 0), "output z is a truth value; store a number: select(condition, 1.0, 0.0)");
}

TEST(ValueErrors, EmptyValues) {
  EXPECT_REFUSED(Value e; exp(e), "a Value is used that was declared but never given an expression");
  EXPECT_REFUSED(Value e; l2norm(e, d), "a Value is used that was declared but never given an expression");
}

TEST(ValueErrors, TwoSpecs) {
  EXPECT_REFUSED(Spec r("r", "", o); Axis u = r.rows("t");
                 x + r.input("a", {u, r.heads("h")}), "values of two specs are mixed; declare both in the same Spec");
  EXPECT_REFUSED(Spec r("r", "", o);
                 cumsum(x, r.rows("t")), "values of two specs are mixed; declare both in the same Spec");
  EXPECT_REFUSED(Spec r("r", "", o); r.rows("t");
                 r.output("y", x), "values of two specs are mixed; declare both in the same Spec");
  EXPECT_REFUSED(Spec r("r", "", o);
                 s.param("b", {r.heads("h")}), "values of two specs are mixed; declare both in the same Spec");
}

TEST(ValueErrors, WholeSpecs) {
  const std::string place = "tests/error/dsl_values.cpp:" + std::to_string(__LINE__ + 2);
  const auto message = [](auto finish) {
    Spec s("empty", "", Options());
    try {
      finish(s);
      s.graph();
    } catch (const SpecError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message([](Spec&) {}),
            place + ": error: spec empty needs a row axis and a head axis: rows(\"t\") and heads(\"h\")");
  EXPECT_EQ(message([](Spec& s) { s.rows("t"), s.heads("h"); }),
            place + ": error: spec empty has no output; declare at least one");
  const std::string line = std::to_string(__LINE__ + 3);
  const auto idle_input = [](Spec& s) {
    Axis t = s.rows("t"), h = s.heads("h");
    Value a = s.input("a", {t, h}), idle = s.input("idle", {t, h});
    s.output("y", a);
  };
  EXPECT_EQ(message(idle_input),
            "tests/error/dsl_values.cpp:" + line + ": error: input idle reaches no output; use it or leave it out");
}
