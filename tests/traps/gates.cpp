// SPDX-License-Identifier: Apache-2.0
// Gates, scans and their functions in specs written here: T002, T004, T006, T009, T010, T012-T014 of docs/traps.md.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/kda_reference.h"
#include "tests/common/strided_call.h"

using namespace kdagen;
using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

/// Kimi delta attention's products under a gate without a lower bound; `inverse`: with 2^-g_c too.
test::Body softplus_preamble(bool inverse) {
  return [inverse](Spec& s, const Options&, Axis t, Axis h, Axis d) {
    Value q = s.input("q", {t, h, d}), k = s.input("k", {t, h, d}), g_raw = s.input("g_raw", {t, h, d});
    Value A_log = s.param("A_log", {h}), dt_bias = s.param("dt_bias", {h, d});
    Value g = s.let("g", -exp(A_log) * log2e * softplus(g_raw + dt_bias));
    Value g_c = s.let("g_c", cumsum(g, t)), g_T = total(g, t);
    s.output("q_d", l2norm(q, d) * exp2(g_c) / std::sqrt(16.0));
    s.output("k_d", l2norm(k, d) * exp2(g_c));
    if (inverse) s.output("k_i", l2norm(k, d) * exp2(-g_c));
    s.output("k_r", l2norm(k, d) * exp2(cumsum(g, t, {.exclusive = true, .reverse = true})));
    s.output("g_T", g_T).dtype(f32);
  };
}

std::string refusal(const test::Body& body, const Settings& settings = {}) {
  try {
    EmulatedProgram(body, settings).kernel(Pass::fwd);
    return "";
  } catch (const SpecError& error) {
    return error.what();
  }
}

const Settings small{{"dim", "16"}, {"dtype", "f32"}, {"out", "f32"}, {"grads", "f32"}};

/// Pointwise: y = formula(x), run on the values in order, with cotangent 1. Gives y and dx.
struct Pointwise {
  std::vector<double> y, dx;
};
Pointwise pointwise(const std::function<Value(Value)>& formula, const std::vector<double>& x) {
  EmulatedProgram program(
      [&](Spec& s, const Options&, Axis t, Axis h, Axis d) { s.output("y", formula(s.input("x", {t, h, d}))); }, small);
  const int64_t count = static_cast<int64_t>(x.size());
  Call call(program, {1, (count + 15) / 16, 1});
  const auto at = [](const At& at) { return at.row * 16 + at.d; };
  call.set("x", [&](const At& where) { return at(where) < count ? x[at(where)] : 0; })
      .set("dy", 1)
      .forward()
      .backward();
  Pointwise result{values_of(call.tensor("y")), values_of(call.tensor("dx"))};
  result.y.resize(count), result.dx.resize(count);
  return result;
}

}  // namespace

TEST(Gates, T002OneChannelOutOfRange) {
  EXPECT_THAT(refusal(softplus_preamble(true), small),
              AllOf(HasSubstr("2^(-g_c) may overflow"), HasSubstr("bounds(lower, upper)")));
  EmulatedProgram program(softplus_preamble(false), with(small, {{"chunk", "16"}}));
  const auto run = [&](bool spike) {
    auto call = std::make_unique<Call>(program, CallSizes{1, 64, 2});
    call->set("A_log", 0).set("dt_bias", 0);
    call->set("g_raw", [=](const At& at) {
      return spike && at.h == 1 && at.d == 3 && at.row >= 4 && at.row <= 9 ? 25.8 : std::log(std::expm1(0.1));
    });
    call->forward().backward();
    return call;
  };
  const auto spiked = run(true), plain = run(false);
  for (const char* name : {"q_d", "k_d", "k_r", "dg_raw"})
    for (int64_t row = 0; row < 64; ++row)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t d = 0; d < 16; ++d)
          if (h != 1 || d != 3) {
            ASSERT_EQ((*spiked)(name, row, h, d), (*plain)(name, row, h, d)) << name;
          }
  const auto reference = kda_reference(*spiked, {64}, {16, 16, 0});
  for (const char* name : {"q_d", "k_d", "k_r", "g_T", "dq", "dk", "dg_raw", "dA_log", "ddt_bias"})
    EXPECT_TRUE(relative_rms(values_of(spiked->tensor(name)), reference.at(name)) <= 2e-5) << name;
}

TEST(Gates, T004PositiveLogDecayHandedIn) {
  const auto preamble = [](double lower, double upper) -> test::Body {
    return [=](Spec& s, const Options&, Axis t, Axis h, Axis d) {
      Tensor a = s.input("a", {t, h, d});
      if (upper < 100) a.bounds(lower, upper);
      Value x = s.input("x", {t, h, d});
      s.output("y", x * exp2(cumsum(log2e * a, t)));
    };
  };
  for (const char* chunk : {"16", "64"}) {
    const int64_t C = std::stoi(chunk);
    const double largest = C == 16 ? 5 : 1.25;  // 64 * 1.25 nats fit, 64 * 5 do not
    const Settings settings = with(small, {{"chunk", chunk}, {"dim", "128"}});
    EXPECT_THAT(refusal(preamble(0, 100), settings),
                AllOf(HasSubstr("may overflow"), HasSubstr("bounds(lower, upper) on a")));
    EXPECT_THAT(refusal(preamble(0, C == 16 ? 6 : 5), settings), HasSubstr("may overflow"));
    EmulatedProgram program(preamble(-5, largest), settings);
    Call call(program, {1, 128, 4});
    call.set("a", largest).set("dy", [](const At& at) { return 1 + static_cast<double>((at.row + at.d) % 3); });
    call.forward().backward();
    std::vector<double> y(128 * 4 * 128), dx = y, da = y;
    for (int64_t h = 0; h < 4; ++h)
      for (int64_t d = 0; d < 128; ++d) {
        double suffix = 0;
        for (int64_t row = 127; row >= 0; --row) {
          const int64_t i = (row * 4 + h) * 128 + d;
          const double factor = std::exp(largest * static_cast<double>(row % C + 1));
          y[i] = call("x", row, h, d) * factor, dx[i] = call("dy", row, h, d) * factor;
          if (row % C == C - 1) suffix = 0;
          da[i] = suffix += y[i] * call("dy", row, h, d);
        }
      }
    for (const auto& [name, expected] : {std::pair("y", &y), {"dx", &dx}, {"da", &da}})
      EXPECT_LE(relative_rms(values_of(call.tensor(name)), *expected), 2e-5) << name << " chunk " << chunk;
  }
}

TEST(Gates, T006InfiniteLogDecay) {
  EmulatedProgram program(softplus_preamble(false), small);
  const auto run = [&](double gate) {
    auto call = std::make_unique<Call>(program, CallSizes{1, 32, 1});
    call->set("A_log", 0).set("dt_bias", 0).set("g_raw", [=](const At& at) { return at.row == 5 ? gate : 0; });
    for (const char* name : {"dq_d", "dk_d", "dk_r", "dg_T"}) call->set(name, 1);
    call->forward().backward();
    return call;
  };
  const auto infinite = run(3e38), shut = run(1000);  // a decay of 2^-1442 is 0 as well
  for (const std::string name : {"q_d", "k_d", "k_r", "dq", "dk", "dg_raw"})
    for (int64_t row = 0; row < 32; ++row)
      for (int64_t d = 0; d < 16; ++d) {
        const double value = (*infinite)(name, row, 0, d);
        ASSERT_TRUE(std::isfinite(value)) << name << " row " << row;
        if (row != 5 && name != "dg_raw") {
          ASSERT_EQ(value, (*shut)(name, row, 0, d)) << name << " row " << row;
        }
        if ((name == "q_d" || name == "k_d") && row >= 5 && row < 16) {
          ASSERT_EQ(value, 0) << name << " row " << row;
        }
        if (name == "k_r" && row < 5) {
          ASSERT_EQ(value, 0) << "row " << row;
        }
        if (name == "k_r" && row >= 5) {
          ASSERT_NE(value, 0) << "row " << row;
        }
      }
  for (const char* name : {"dA_log", "ddt_bias"})
    for (const double value : values_of(infinite->tensor(name))) ASSERT_FALSE(std::isnan(value)) << name;
  EXPECT_EQ(std::exp2((*infinite)("g_T", 0)), 0);
  EXPECT_EQ((*infinite)("g_T", 1), (*shut)("g_T", 1));
}

// The shipped preamble with such a gate writes 2^(total - cumsum); difference-of-sums makes it the sum of the rows
// behind.
TEST(Gates, T006DecayToTheEndAsADifference) {
  const auto spec = [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
    Value k = s.input("k", {t, h, d}), g = s.let("g", logsigmoid(s.input("g_raw", {t, h, d})) * 10.0);
    s.output("k_r", k * exp2(total(g, t) - cumsum(g, t)));
  };
  EmulatedProgram program(spec, with(small, {{"dtype", "f32"}, {"out", "f32"}, {"grads", "f32"}}));
  const auto run = [&](double gate) {
    auto call = std::make_unique<Call>(program, CallSizes{1, 32, 1});
    call->set("g_raw", [=](const At& at) { return at.row == 5 ? gate : 3.0 + 0.1 * static_cast<double>(at.row); })
        .set("k", 1)
        .set("dk_r", 1);
    call->forward().backward();
    return call;
  };
  const auto infinite = run(-3e38), strong = run(-1e6), shut = run(-100);  // -inf, -1e7, -1000 in log2 units
  for (const char* name : {"k_r", "dk", "dg_raw"})
    for (int64_t row = 0; row < 32; ++row)
      for (int64_t d = 0; d < 16; ++d) {
        if (row == 5 && std::string(name) == "dg_raw") continue;
        const double value = (*infinite)(name, row, 0, d);
        ASSERT_TRUE(std::isfinite(value)) << name << " row " << row;
        ASSERT_EQ(value, (*strong)(name, row, 0, d)) << name << " row " << row;  // the gates behind are not lost
        ASSERT_EQ(value, (*shut)(name, row, 0, d)) << name << " row " << row;
        if (row < 5 && std::string(name) != "dg_raw") {
          ASSERT_EQ(value, 0) << name << " row " << row;
        }
      }
  double exact = 0;
  for (int64_t row = 15; row >= 5; --row) {
    ASSERT_NEAR((*infinite)("k_r", row) / std::exp2(exact), 1, 1e-5) << "row " << row;
    exact += -std::log1p(std::exp(-(3.0 + 0.1 * static_cast<double>(row)))) * 10.0;
  }
}

TEST(Gates, T009SuffixSums) {
  for (const char* chunk : {"16", "64"})
    for (const char* dim : {"16", "128"}) {
      const int64_t C = std::stoi(chunk), D = std::stoi(dim);
      std::set<std::string> taken;
      for (const int threads : {32, 64, 128, 256, 512, 1024})
        for (const int tiles : {1, 4}) {
          const std::string schedule = fmt::format("threads={},tiles_per_block={}", threads, tiles);
          std::unique_ptr<EmulatedProgram> program;
          try {
            program = std::make_unique<EmulatedProgram>(
                [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
                  s.output("y", cumsum(s.input("x", {t, h, d}), t));
                },
                with(small, {{"chunk", chunk}, {"dim", dim}, {"schedule", schedule}}));
            if (!taken.insert(program->emit(Pass::bwd).first).second) continue;
          } catch (const UsageError&) {  // more warps than columns or rows
            continue;
          }
          SCOPED_TRACE(fmt::format("chunk {} dim {} {}", chunk, dim, schedule));
          Call call(*program, {1, C + 5, 1});
          call.set("dy", [=](const At& at) { return at.row < C / 2 ? 1e8 : 1.0; }).backward();
          for (int64_t d = 0; d < D; ++d) {
            for (int64_t row = C / 2; row < C; ++row)
              ASSERT_EQ(call("dx", row, 0, d), static_cast<double>(C - row)) << row;
            for (int64_t row = 0; row < 5; ++row)
              ASSERT_EQ(call("dx", C + row, 0, d), static_cast<double>(5 - row)) << row;
          }
        }
      EXPECT_GE(taken.size(), 4u) << "chunk " << chunk << " dim " << dim;
    }
}

// Scans are sums here; the order is the question.
TEST(Gates, T010ReverseScansOfAnyLength) {
  EmulatedProgram program(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        s.output("up", cumsum(x, t, {.reverse = true}));
        s.output("above", cumsum(x, t, {.exclusive = true, .reverse = true}));
        s.output("below", cumsum(x, t, {.exclusive = true}));
      },
      with(small, {{"chunk", "64"}}));
  const std::vector<int64_t> lengths{1, 2, 3, 4, 5, 31, 32, 33, 63, 64};
  Call call(program, {1, 0, 1, lengths});
  call.set("x", [](const At& at) { return static_cast<double>((at.row * at.row * 7 + at.d) % 1000) - 500; }).forward();
  for (int64_t first = 0, i = 0; i < std::ssize(lengths); first += lengths[i++])
    for (int64_t d = 0; d < 16; ++d) {
      double above = 0, below = 0;
      for (int64_t row = first + lengths[i] - 1; row >= first; --row) {
        ASSERT_EQ(call("above", row, 0, d), above) << "length " << lengths[i];
        ASSERT_EQ(call("up", row, 0, d), above += call("x", row, 0, d)) << "length " << lengths[i];
      }
      for (int64_t row = first; row < first + lengths[i]; below += call("x", row++, 0, d))
        ASSERT_EQ(call("below", row, 0, d), below);
    }
}

TEST(Gates, T012SoftplusOfLargeArguments) {
  const std::vector<double> x{20, 50, 88, 89, 100, 1e3, 1e30, -100, -1e30};
  EmulatedProgram program(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), z = x + s.param("dt_bias", {h, d});
        s.output("y", -exp(s.param("A_log", {h})) * softplus(z));
        s.output("steep", softplus(5.0 * x) / 5.0);
      },
      small);
  constexpr int64_t rows = 37;
  Call call(program, {1, 0, 1, {5, 0, 32}});
  call.set("x", [&](const At& at) { return at.d < 9 ? static_cast<double>(static_cast<float>(x[at.d])) : 20; });
  call.set("A_log", 0).set("dt_bias", 0).set("dsteep", 0).forward().backward();
  for (int64_t d = 0; d < 9; ++d) {
    const double value = call("x", 0, 0, d);
    double bias = 0, size = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const double dy = call("dy", row, 0, d);
      EXPECT_NEAR(call("y", row, 0, d), -std::max(value, 0.0), 4e-9 + 1e-7 * std::abs(value));
      EXPECT_NEAR(call("steep", row, 0, d), std::max(value, 0.0), 1e-7 * std::abs(value));
      EXPECT_NEAR(call("dx", row, 0, d), value > 0 ? -dy : 0, 4e-9);
      bias -= value > 0 ? dy : 0, size += std::abs(dy);
    }
    EXPECT_NEAR(call("ddt_bias", 0, 0, d), bias, 2e-7 * size) << value;
  }
  call.set("dsteep", 1).set("dy", 0).backward();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t d = 0; d < 7; ++d) EXPECT_EQ(call("dx", row, 0, d), 1);
}

TEST(Gates, T013SoftplusHasOneArgument) {
  const Pointwise plain = pointwise([](Value x) { return softplus(x); }, {0.8, 19.999, 20, 20.001});
  EXPECT_NEAR(plain.y[0], 1.1711, 1e-4);
  EXPECT_NEAR(plain.dx[0], 0.68997, 1e-5);
  for (int i = 1; i < 4; ++i) EXPECT_NEAR(plain.dx[i], 1, 1e-7);
  // A threshold of the user's: value and slope change sides together, at the x that is written.
  const Pointwise cut =
      pointwise([](Value x) { return select(x > 20.0, 2.0 * x, softplus(x)); }, {0.8, 19.999, 20, 20.001});
  EXPECT_NEAR(cut.dx[0], 0.68997, 1e-5);
  for (int i = 1; i < 4; ++i) {
    EXPECT_NEAR(cut.y[i], i == 3 ? 40.002 : 20, 2e-3);
    EXPECT_NEAR(cut.dx[i], i == 3 ? 2 : 1, 1e-7);
  }
}

// Widths are multiples of 4, so that a row has no remainder; rows that start between the vectors' places are read by
// scalars.
TEST(Gates, T014SigmoidOfLargeArguments) {
  const std::vector<double> z{-1000, -100, -89, -88, 88, 89, 100, 1000, -0.0, 0, 3, -17.5, 20};
  const int64_t rows = static_cast<int64_t>(z.size()), heads = 2;
  const double bias = 0.75;
  for (const int dim : {16, 20, 36})
    for (const char* dtype : {"f32", "bf16"}) {
      SCOPED_TRACE(fmt::format("dim {} {}", dim, dtype));
      EmulatedProgram program(
          [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
            s.output("y", sigmoid(exp(s.param("A_log", {h})) * (s.input("x", {t, h, d}) + s.param("dt_bias", {h, d}))));
          },
          with(small, {{"dim", std::to_string(dim)}, {"dtype.x", dtype}}));
      Call call(program, {1, rows, heads});
      const auto rate = [](int64_t h) { return std::exp(static_cast<double>(static_cast<float>(h ? 1.5 : -0.5))); };
      call.set("x", [&](const At& at) { return z[(at.row + at.d) % rows] / rate(at.h) - bias; })
          .set("A_log", [](const At& at) { return at.h ? 1.5 : -0.5; })
          .set("dt_bias", bias);
      call.forward().backward();
      std::vector<double> y, dx, dA_log(heads), ddt_bias(heads * dim);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t d = 0; d < dim; ++d) {
            const double x = rate(h) * (call("x", row, h, d) + bias);
            const double slope = stable_sigmoid(x) * stable_sigmoid(-x), dy = call("dy", row, h, d);
            y.push_back(stable_sigmoid(x)), dx.push_back(dy * slope * rate(h));
            ASSERT_NEAR(call("y", row, h, d), y.back(), 1e-6 * y.back() + 1e-37) << x;
            ASSERT_NEAR(call("dx", row, h, d), dx.back(), 2e-6 * std::abs(dx.back()) + 1e-37) << x;
            if (std::abs(x) >= 999) {
              ASSERT_EQ(call("dx", row, h, d), 0) << x;
            }
            dA_log[h] += dy * slope * x, ddt_bias[h * dim + d] += dx.back();
          }
      EXPECT_LE(relative_rms(values_of(call.tensor("ddt_bias")), ddt_bias), 2e-5);
      EXPECT_LE(relative_rms(values_of(call.tensor("dA_log")), dA_log), 2e-5);
      for (const Pass pass : {Pass::fwd, Pass::bwd})
        for (const int64_t start : {1, 2, 3}) {
          const auto expected = call.tensors();
          call.prepare(pass);
          std::vector<StridedCopy> copies;
          for (const char* name : {"x", "y", "dy", "dx"})
            if (call.kernel(pass).manifest().find_tensor(name))
              copies.emplace_back(name, call.tensor(name), runtime::contiguous_strides(call.tensor(name).shape), start);
          std::vector<StridedCopy*> pointers;
          for (StridedCopy& copy : copies) pointers.push_back(&copy);
          launch_with(call, pass, pointers);
          for (const std::string& name : call.outputs(pass))
            EXPECT_EQ(call.tensor(name).data, expected.at(name).data) << name << " from element " << start;
        }
    }
}
