// SPDX-License-Identifier: Apache-2.0
// Row norms and their derivatives where rows are zero, small or spiky: T015-T020 of docs/traps.md.
#include <gtest/gtest.h>

#include "tests/common/emulated_program.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

const Settings precise{{"dim", "64"}, {"dtype", "f32"}, {"out", "f32"}, {"grads", "f32"}};

enum class Epsilon { inside, at_least, outside };

test::Body norm(Epsilon where) {
  return [where](Spec& s, const Options&, Axis t, Axis h, Axis d) {
    Value x = s.input("x", {t, h, d}), squares = sum(x * x, d);
    if (where == Epsilon::inside) s.output("y", x * rsqrt(squares + 1e-6));
    if (where == Epsilon::at_least) s.output("y", x / max(sqrt(squares), 1e-6));
    if (where == Epsilon::outside) s.output("y", x / (sqrt(squares) + 1e-6));
  };
}

/// y and its gradient of one row in double, x as stored.
struct Row {
  std::vector<double> y, dx;
};
Row reference(const Call& call, int64_t row, int64_t h, int64_t dim, Epsilon where) {
  double squares = 0, along = 0;
  for (int64_t d = 0; d < dim; ++d)
    squares += std::pow(call("x", row, h, d), 2), along += call("x", row, h, d) * call("dy", row, h, d);
  const double n = std::sqrt(squares);
  double scale = 1 / std::sqrt(squares + 1e-6), slope = -std::pow(scale, 3);  // dx = scale dy + slope <x, dy> x
  if (where == Epsilon::at_least) scale = 1 / std::max(n, 1e-6), slope = n > 1e-6 ? -std::pow(n, -3) : 0;
  if (where == Epsilon::outside) scale = 1 / (n + 1e-6), slope = -1 / (n * std::pow(n + 1e-6, 2));
  Row result;
  for (int64_t d = 0; d < dim; ++d) {
    result.y.push_back(scale * call("x", row, h, d));
    result.dx.push_back(scale * call("dy", row, h, d) + slope * along * call("x", row, h, d));
  }
  return result;
}

std::vector<double> row_of(const Call& call, const std::string& name, int64_t row, int64_t h, int64_t dim) {
  std::vector<double> values;
  for (int64_t d = 0; d < dim; ++d) values.push_back(call(name, row, h, d));
  return values;
}

}  // namespace

TEST(Norms, T015ZeroRows) {
  for (const Epsilon where : {Epsilon::inside, Epsilon::at_least}) {
    EmulatedProgram program(norm(where), precise);
    Call call(program, {1, 8, 1});
    call.set("x", [](const At& at) { return at.row == 3 ? 0 : std::sin(static_cast<double>(at.row * 64 + at.d)); })
        .forward()
        .backward();
    for (int64_t row = 0; row < 8; ++row) {
      const Row expected = reference(call, row, 0, 64, where);
      EXPECT_TRUE(relative_rms(row_of(call, "y", row, 0, 64), expected.y) <= 1e-6) << row;
      EXPECT_TRUE(relative_rms(row_of(call, "dx", row, 0, 64), expected.dx) <= 2e-6) << row;
    }
    const double factor = where == Epsilon::inside ? 1e3 : 1e6;
    for (int64_t d = 0; d < 64; ++d) EXPECT_NEAR(call("dx", 3, 0, d) / (factor * call("dy", 3, 0, d)), 1, 1e-6);
  }
}

TEST(Norms, T016EpsilonStandsWhereItIsWritten) {
  const double inside[] = {0.99504, 0.70711, 0.09950}, outside[] = {0.99990, 0.99900, 0.99010};
  for (const Epsilon where : {Epsilon::inside, Epsilon::outside}) {
    EmulatedProgram program(norm(where), precise);
    Call call(program, {1, 3, 1});
    call.set(
            "x",
            [](const At& at) { return std::pow(10.0, -2 - static_cast<double>(at.row)) * (at.d % 2 ? 0.125 : -0.125); })
        .forward()
        .backward();
    for (int64_t row = 0; row < 3; ++row) {
      double length = 0;
      for (const double y : row_of(call, "y", row, 0, 64)) length += y * y;
      EXPECT_NEAR(std::sqrt(length), (where == Epsilon::inside ? inside : outside)[row], 1e-5);
      EXPECT_TRUE(relative_rms(row_of(call, "dx", row, 0, 64), reference(call, row, 0, 64, where).dx) <= 2e-5) << row;
    }
  }
}

// Guards after a square root, and a square root squared: no branch that is not taken may leak its infinite slope.
TEST(Norms, T017T018SquareRootsAtZero) {
  EmulatedProgram program(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), y = s.input("y", {t, h, d}), z = s.input("z", {t, h, d});
        Value squares = sum(x * x, d);
        s.output("guarded", max(sqrt(squares), 1e-10));
        s.output("chosen", select(squares < 1e-20, 1e-10, sqrt(squares)));
        Value norm = sqrt(sum((y - z) * (y - z), d));
        s.output("squared", norm * norm);
      },
      precise);
  Call call(program, {1, 3, 1});  // rows: zero, (1e-30, 0), (3, 4)
  call.set("x", [](const At& at) {
    return at.row == 0 || at.d > 1 ? 0 : at.row == 1 ? (at.d == 0 ? 1e-30 : 0) : at.d == 0 ? 3.0 : 4.0;
  });
  call.set("y", [](const At& at) { return at.row == 2 ? 1 : 0.5; }).set("z", 0.5);
  for (const char* name : {"dguarded", "dchosen", "dsquared"}) call.set(name, 1);
  call.forward().backward();
  for (int64_t d = 0; d < 64; ++d) {
    for (int64_t row = 0; row < 2; ++row) {
      ASSERT_EQ(call("dx", row, 0, d), 0);
      ASSERT_EQ(call("dy", row, 0, d), 0);
      ASSERT_EQ(call("dz", row, 0, d), 0);
    }
    EXPECT_NEAR(call("dx", 2, 0, d), d == 0 ? 1.2 : d == 1 ? 1.6 : 0, 1e-6);  // twice (3, 4) / 5
    EXPECT_NEAR(call("dy", 2, 0, d), 1, 1e-6);
    EXPECT_NEAR(call("dz", 2, 0, d), -1, 1e-6);
  }
  for (int64_t row = 0; row < 2; ++row) EXPECT_NEAR(call("guarded", row) / 1e-10, 1, 1e-6);
}

TEST(Norms, T019RadialPartOfTheGradient) {
  EmulatedProgram program(norm(Epsilon::inside), {{"dim", "128"}, {"grads", "f32"}});  // x and y in bf16
  Call call(program, {1, 2, 1});
  call.set("x", [](const At& at) {
    return (at.row == 0 ? 0.1 : 0.01) * std::sqrt(2 / 128.0) * std::sin(0.7 * static_cast<double>(at.d + 1));
  });
  call.prepare(Pass::bwd);
  call.set("dy", [&](const At& at) { return call("x", at.row, 0, at.d) * 16; }).backward();  // along y, exactly
  for (int64_t row = 0; row < 2; ++row) {
    const Row expected = reference(call, row, 0, 128, Epsilon::inside);
    EXPECT_TRUE(relative_rms(row_of(call, "dx", row, 0, 128), expected.dx) <= 1e-2) << row;
  }
}

TEST(Norms, T020SumsOfSquaresAreFloat) {
  for (const char* dim : {"64", "128", "256"}) {
    const int64_t D = std::stoi(dim);
    EmulatedProgram program(norm(Epsilon::inside), {{"dim", dim}});
    Call call(program, {1, 17, 2});
    call.set("x", [](const At& at) {
      Draws draws(at.row * 1000 + at.h * 500 + at.d);
      double sum = -6;
      for (int i = 0; i < 12; ++i) sum += draws.uniform(0, 1);
      return at.row == 5 && at.d == 3 ? 100 : sum;
    });
    call.forward();
    for (int64_t row = 0; row < 17; ++row)
      for (int64_t h = 0; h < 2; ++h) {
        double length = 0;
        for (const double y : row_of(call, "y", row, h, D)) length += y * y;
        EXPECT_NEAR(std::sqrt(length), 1, 0x1p-8) << "dim " << dim << " row " << row;
      }
  }
}
