// SPDX-License-Identifier: Apache-2.0
// Derivatives of specs that a user may write: T051, T055, T058, T059, T062-T065 of docs/traps.md. One spec has them
// all: each output is looked at alone, with the cotangents of the others 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/emulated_program.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

/// Running product along the rows of a chunk of 16, by doubling: no logarithm, no quotient.
Value running_product(Value y, Axis t) {
  for (const int64_t step : {1, 2, 4, 8}) y = y * shift(y, t, step, 1.0);
  return y;
}

EmulatedProgram& zoo() {
  static EmulatedProgram program(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), y = s.input("y", {t, h, d}), z = s.input("z", {t, h, d}),
              a = s.param("a", {h});
        s.output("loop", 3.0 * a + total(0.5 * a + 0.0 * x, t));
        Value chain = x;
        for (int i = 0; i < 3; ++i) chain = chain * chain;
        s.output("chain", chain);
        s.output("squared", (x - y) * (x - y));
        s.output("largest", max(x, y));
        s.output("smallest", min(x, y));
        s.output("positive", relu(x));
        s.output("clamped", clamp(x, 0, 1));
        s.output("strided", 2.0 * x + 3.0 * shift(x, t, 5) + 5.0 * shift(x, t, 10));
        s.output("product", running_product(z, t));
        s.output("norm", sum(x * x, d));
        s.output("column", sum(x * x, t));
      },
      {{"dim", "36"}, {"dtype", "f32"}, {"out", "f32"}, {"grads", "f32"}});
  return program;
}

const std::vector<std::string> outputs{"loop",    "chain",   "squared", "largest", "smallest", "positive",
                                       "clamped", "strided", "product", "norm",    "column"};

/// The call with the cotangent of one output given and the others 0, after both passes.
class Alone {
 public:
  Alone(
      const std::string& output, int64_t rows, const std::function<void(Call&)>& set,
      const Fill& cotangent = [](const At&) { return 1.0; })
      : call(zoo(), {1, rows, 1}) {
    for (const std::string& name : outputs) call.set("d" + name, 0);
    set(call);
    call.set("d" + output, cotangent).forward().backward();
  }
  double dx(int64_t row = 0, int64_t d = 0) const { return call("dx", row, 0, d); }
  double dy(int64_t row = 0, int64_t d = 0) const { return call("dy", row, 0, d); }
  Call call;
};

}  // namespace

TEST(UserSpecs, T051AsManyTimesAsThereAreRows) {
  for (const int64_t rows : {1, 4, 16}) {
    const Alone run("loop", rows, [](Call& call) { call.set("a", 2); }, [](const At& at) { return at.d == 0 ? 1 : 0; });
    EXPECT_EQ(run.call("loop"), 6 + static_cast<double>(rows));
    EXPECT_EQ(run.call("da"), 3 + 0.5 * static_cast<double>(rows));
  }
}

TEST(UserSpecs, T055ChainOfSquares) {
  const Alone run("chain", 1, [](Call& call) { call.set("x", 1.1); });
  EXPECT_NEAR(run.call("chain"), 2.14359, 1e-5);
  EXPECT_NEAR(run.dx(), 15.58974, 1e-4);
}

TEST(UserSpecs, T058GradientsThatAreZero) {
  const Alone equal("squared", 3, [](Call& call) { call.set("x", 1).set("y", 1); });
  const Alone silent("squared", 3, [](Call&) {}, [](const At&) { return 0.0; });
  for (const Alone* run : {&equal, &silent})
    for (const char* name : {"dx", "dy", "dz", "da"})
      for (const double value : values_of(run->call.tensor(name))) ASSERT_EQ(value, 0) << name;
#ifdef KDAGEN_HAS_KDA_K1
  EmulatedProgram no_gate("kda_k1", {{"lower_bound", "0"}, {"dim", "16"}, {"gt", "pure"}});
  Call call(no_gate, {1, 17, 1});
  call.forward().backward();
  for (const char* name : {"dg_raw", "dA_log", "ddt_bias"})
    for (const double value : values_of(call.tensor(name))) ASSERT_EQ(value, 0) << name;
#endif
}

TEST(UserSpecs, T059TiesAreSharedHalfAndHalf) {
  const Fill x = [](const At& at) { return static_cast<double>(at.d % 3) - 1; };
  for (const char* name : {"largest", "smallest"}) {
    const Alone run(name, 1, [&](Call& call) { call.set("x", x).set("y", 0); });
    const bool largest = std::string(name) == "largest";
    for (int64_t d = 0; d < 36; ++d) {
      const double own = d % 3 == 1 ? 0.5 : (d % 3 == 2) == largest ? 1 : 0;
      EXPECT_EQ(run.dx(0, d), own) << name;
      EXPECT_EQ(run.dx(0, d) + run.dy(0, d), 1) << name;
    }
  }
  const Alone run("positive", 1, [&](Call& call) { call.set("x", x); });
  for (int64_t d = 0; d < 36; ++d) EXPECT_EQ(run.dx(0, d), 0.5 * static_cast<double>(d % 3));
}

TEST(UserSpecs, T062ClampPassesAtItsBounds) {
  const std::vector<double> x{-1, 0, 0.5, 1, 2}, slope{0, 1, 1, 1, 0};
  const Alone run("clamped", 1, [&](Call& call) { call.set("x", [&](const At& at) { return x[at.d % 5]; }); });
  for (int64_t d = 0; d < 36; ++d) EXPECT_EQ(run.dx(0, d), slope[d % 5]);
}

TEST(UserSpecs, T063RowsThatAreReadFromAfar) {
  const Alone run("strided", 16, [](Call&) {}, [](const At& at) { return at.row == 14 ? 1 : 0; });
  for (int64_t row = 0; row < 16; ++row)
    EXPECT_EQ(run.dx(row, 3), row == 14 ? 2 : row == 9 ? 3 : row == 4 ? 5 : 0) << row;
}

TEST(UserSpecs, T064RunningProductsWithAZero) {
  const Fill z = [](const At& at) {
    return at.row == 4 ? 0 : 0.5 + 0.25 * static_cast<double>((at.row * 3 + at.d) % 5);
  };
  const Alone run("product", 8, [&](Call& call) { call.set("z", z); });
  for (int64_t row = 0; row < 8; ++row)
    for (int64_t d = 0; d < 36; ++d) {
      double gradient = 0;
      for (int64_t k = row; k < 8; ++k) {
        double product = 1;
        for (int64_t r = 0; r <= k; ++r)
          if (r != row) product *= z({r, 0, d});
        gradient += product;
      }
      ASSERT_NEAR(run.call("dz", row, 0, d), gradient, 1e-6 * std::abs(gradient)) << row;
      if (row == 4) ASSERT_NE(gradient, 0);
    }
}

TEST(UserSpecs, T065SumsOfSquares) {
  for (const int64_t rows : {1, 8, 33}) {
    for (const char* name : {"norm", "column"}) {
      const Alone run(name, rows, [](Call&) {});
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t d = 0; d < 36; ++d) ASSERT_EQ(run.dx(row, d), 2 * run.call("x", row, 0, d)) << name;
    }
  }
  EXPECT_THROW(EmulatedProgram("l2norm", {{"dim", "1000"}}), UsageError);
}
