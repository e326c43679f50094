// SPDX-License-Identifier: Apache-2.0
// Gate, decay and scan numerics on the preamble of Kimi delta attention: T001-T009 and T011 of docs/traps.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/kda_reference.h"

using namespace kdagen;
using namespace kdagen::testing;
using ::testing::HasSubstr;

namespace {

const std::vector<std::string> outputs{"q_d", "k_d", "k_i", "k_r", "g_T"},
    gradients{"dq", "dk", "dg_raw", "dA_log", "ddt_bias"};

void expect_close(const Call& call, const std::vector<int64_t>& lengths, const KdaConstants& constants,
                  const std::vector<std::string>& names) {
  const auto reference = kda_reference(call, lengths, constants);
  for (const std::string& name : names) {
    const bool narrow = call.tensor(name).dtype != runtime::DType::f32;
    const double difference = relative_rms(values_of(call.tensor(name)), reference.at(name));
    EXPECT_TRUE(difference <= (narrow ? 1e-2 : 2e-5)) << name << " is off by " << difference;
  }
}

/// Cotangents as large as the inverse of what they belong to, so that every row counts.
void fair_cotangents(Call& call, const KdaConstants& constants, double nats_a_token) {
  const auto decay = [=](const At& at) {
    return std::exp(nats_a_token * static_cast<double>(at.row % constants.chunk + 1));
  };
  const auto noise = [](const At& at, int salt) {
    return std::sin(1.3 * static_cast<double>(at.row) + 0.7 * static_cast<double>(at.d) +
                    static_cast<double>(3 * at.h + salt));
  };
  call.set("dq_d", [=](const At& at) { return noise(at, 1) / decay(at); });
  call.set("dk_d", [=](const At& at) { return noise(at, 2) / decay(at); });
  call.set("dk_i", [=](const At& at) { return noise(at, 3) * decay(at); });
  call.set("dk_r", [=](const At& at) { return noise(at, 4); });
}

std::string refusal(const Settings& settings) {
  try {
    EmulatedProgram("kda_k1", settings).kernel(Pass::fwd);
    return "";
  } catch (const SpecError& error) {
    return error.what();
  }
}

}  // namespace

TEST(KdaGates, T001InverseDecayOutOfRange) {
  struct Case {
    int64_t chunk;
    double lower_bound;
    bool fits;
  };
  for (const auto& [chunk, bound, fits] : {Case{16, -5, true},
                                           {16, -5.54, true},
                                           {16, -5.56, false},
                                           {16, -6, false},
                                           {32, -2.77, true},
                                           {32, -2.78, false},
                                           {64, -1.38, true},
                                           {64, -1.39, false}}) {
    SCOPED_TRACE(fmt::format("chunk {} lower_bound {}", chunk, bound));
    const KdaConstants constants{chunk, 64, bound};
    if (!fits) {
      EXPECT_THAT(refusal(constants.settings()), ::testing::AllOf(HasSubstr("lower_bound"), HasSubstr("chunk")));
      continue;
    }
    EmulatedProgram program("kda_k1", constants.settings());
    Call call(program, {1, 2 * chunk + 1, 2});
    call.set("g_raw", 20).set("A_log", 0).set("dt_bias", 0);
    fair_cotangents(call, constants, bound);
    call.forward().backward();
    expect_close(call, {2 * chunk + 1}, constants, {"q_d", "k_d", "k_i", "k_r", "g_T", "dq", "dk"});
    for (int64_t i = 0; i < call.tensor("dg_raw").elements();
         ++i)  // the slope is 2e-9; each product is of the order of 1
      ASSERT_TRUE(std::abs(call.tensor("dg_raw").get(i)) <= 1e-6);
  }
}

TEST(KdaGates, T003HalfPrecisionCannotHoldGrowth) {
  const std::string message = refusal({{"dtype", "fp16"}, {"out", "fp16"}});
  EXPECT_THAT(message, ::testing::AllOf(HasSubstr("fp16"), HasSubstr("k_i")));
  // One wider output, and the rest fits.
  EmulatedProgram program("kda_k1",
                          {{"dtype", "fp16"}, {"out", "fp16"}, {"out.k_i", "bf16"}, {"grads", "fp16"}, {"gt", "pure"}});
  Call call(program, {1, 16, 1});
  call.set("g_raw", 20).set("A_log", 0).set("dt_bias", 0);
  call.forward();
  expect_close(call, {16}, {}, {"k_i", "g_T"});
  for (const char* name : {"q_d", "k_d", "k_r"})
    for (const double value : values_of(call.tensor(name))) ASSERT_TRUE(std::isfinite(value)) << name;
}

TEST(KdaGates, T005ZeroOperandsAndZeroCotangents) {
  for (const int64_t chunk : {16, 64}) {
    const KdaConstants constants{chunk, 128, chunk == 16 ? -5.0 : -1.25};
    EmulatedProgram program("kda_k1", constants.settings());
    Call zeros(program, {1, 130, 2});
    zeros.set("g_raw", 20).set("q", 0).set("k", 0).set("dg_T", 0).forward().backward();
    for (const char* name : {"q_d", "k_d", "k_i", "k_r", "dg_raw", "dA_log", "ddt_bias"})
      for (const double value : values_of(zeros.tensor(name))) ASSERT_EQ(value, 0) << name;
    Call silent(program, {1, 130, 2});
    for (const char* name : {"dq_d", "dk_d", "dk_i", "dk_r", "dg_T", "dv_out", "dbeta"}) silent.set(name, 0);
    silent.set("g_raw", 20).backward();
    for (const std::string& name : silent.outputs(Pass::bwd))
      for (const double value : values_of(silent.tensor(name))) ASSERT_EQ(value, 0) << name;
  }
}

TEST(KdaGates, T007DiagonalTermsCancel) {
  for (const char* out : {"f32", "bf16"}) {
    SCOPED_TRACE(out);
    const KdaConstants constants{16, 128, -5.5};
    const double x = 2.302585;
    EmulatedProgram program("kda_k1", constants.settings({{"out", out}, {"grads", "f32"}, {"dtype", "f32"}}));
    Call call(program, {1, 64, 2});
    call.set("g_raw", x).set("A_log", 0).set("dt_bias", 0).set("dk_d", 0).set("dk_r", 0).set("dg_T", 0).forward();
    const runtime::HostTensor q_d = call.tensor("q_d"), k_i = call.tensor("k_i");
    const auto element = [](const At& at) { return (at.row * 2 + at.h) * 128 + at.d; };
    call.set("dq_d", [&](const At& at) { return k_i.get(element(at)); }).set("dk_i", [&](const At& at) {
      return q_d.get(element(at));
    });
    call.backward();
    double term = 0;
    for (int64_t i = 0; i < q_d.elements(); ++i) term = std::max(term, std::abs(q_d.get(i) * k_i.get(i)));
    ASSERT_GT(term, 0);
    for (const double value : values_of(call.tensor("dg_raw")))
      ASSERT_TRUE(std::abs(value) <= 1e-6 * term) << value << " of " << term;
    // Sums of many such terms, each rounded: the root of the sum of their squares. Those of dA_log are x times as
    // large.
    const auto root = [&](int64_t h, int64_t first_d, int64_t end_d) {
      double squares = 0;
      for (int64_t row = 0; row < 64; ++row)
        for (int64_t d = first_d; d < end_d; ++d) {
          const int64_t i = element({row, h, d});
          squares += std::pow(q_d.get(i) * k_i.get(i), 2);
        }
      return std::sqrt(squares);
    };
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t d = 0; d < 128; ++d)
        ASSERT_LE(std::abs(call("ddt_bias", 0, h, d)), 1e-6 * root(h, d, d + 1)) << "ddt_bias";
      ASSERT_LE(std::abs(call("dA_log", 0, h)), 1e-6 * x * root(h, 0, 128)) << "dA_log";
    }
    // sum_{j<=i} <q_d_i, k_i_j> w_ij: the off-diagonal part of it is what the gate sees.
    const auto weight = [](int64_t i, int64_t j) {
      return std::cos(0.9 * static_cast<double>(i) - 0.4 * static_cast<double>(j));
    };
    call.set("dq_d", [&](const At& at) {
      double sum = 0;
      for (int64_t j = at.row / 16 * 16; j <= at.row; ++j) sum += weight(at.row, j) * k_i.get(element({j, at.h, at.d}));
      return sum;
    });
    call.set("dk_i", [&](const At& at) {
      double sum = 0;
      for (int64_t i = at.row; i < at.row / 16 * 16 + 16; ++i)
        sum += weight(i, at.row) * q_d.get(element({i, at.h, at.d}));
      return sum;
    });
    call.backward();
    const auto reference =
        kda_reference(call, {64}, constants, std::string(out) == "bf16");  // a consumer's loss of the stored numbers
    const double difference = relative_rms(values_of(call.tensor("dg_raw")), reference.at("dg_raw"));
    EXPECT_TRUE(difference <= 1e-2) << difference;
  }
}

TEST(KdaGates, T008NatsAndLog2Units) {
  const KdaConstants constants{16, 16, -2};
  EmulatedProgram program("kda_k1", constants.settings(with(float_tensors, {{"scale", "1"}})));
  Call call(program, {1, 16, 1});
  call.set("g_raw", 0).set("A_log", 0).set("dt_bias", 0);
  const Fill unit = [](const At& at) { return at.d == 0 ? 1.0 : 0.0; };
  call.set("q", unit).set("k", unit).forward().backward();
  EXPECT_NEAR(std::exp2(call("g_T")) / std::exp(-16.0), 1, 1e-5);
  EXPECT_NEAR(call("q_d", 3) / std::exp(-4.0), 1, 2e-6);
  EXPECT_NEAR(call("k_i", 3) / std::exp(4.0), 1, 2e-6);
  // Central differences of the loss <outputs, cotangents> through the text itself.
  const auto loss = [&](double step) {
    call.set("g_raw", [=](const At& at) { return at.row == 3 && at.d == 0 ? step : 0; }).forward();
    double sum = 0;
    for (const char* name : {"q_d", "k_d", "k_i", "k_r"})
      for (int64_t row = 0; row < 16; ++row) sum += call(name, row) * call("d" + std::string(name), row);
    return sum + call("g_T") * call("dg_T");
  };
  const double analytic = call("dg_raw", 3), step = 1.0 / 64;
  const double measured = (4 * (loss(step / 2) - loss(-step / 2)) / step - (loss(step) - loss(-step)) / (2 * step)) / 3;
  EXPECT_NEAR(analytic / measured, 1, 1e-3);
}

TEST(KdaGates, T011NothingFromTheFuture) {
  for (const char* anchor : {"none", "static"}) {  // by sub-chunk: the next test
    SCOPED_TRACE(anchor);
    const KdaConstants constants{16, 128, -5};
    EmulatedProgram program("kda_k1", constants.settings({{"anchor", anchor}}));
    const auto run = [&](double last) {
      auto call = std::make_unique<Call>(program, CallSizes{1, 22, 4});
      call->set("g_raw", [=](const At& at) {
        return at.row == 21 ? last : std::sin(static_cast<double>(at.row * 7 + at.d * 3 + at.h));
      });
      call->set("A_log", [](const At& at) { return 0.4 + 0.7 * static_cast<double>(at.h); });
      for (const char* name : {"dq_d", "dk_d", "dk_i"})
        call->set(name, [](const At& at) { return at.row < 21 ? std::cos(static_cast<double>(at.row + at.d)) : 0; });
      call->set("dk_r", [](const At& at) { return at.row < 16 ? 0.5 : 0; }).set("dg_T", [](const At& at) {
        return at.row == 0 ? 0.25 : 0;
      });
      call->forward().backward();
      return call;
    };
    const auto a = run(-3), b = run(9);
    for (const char* name : {"q_d", "k_d", "k_i", "dq", "dk", "dg_raw"})
      for (int64_t row = 0; row < 21; ++row)
        for (int64_t h = 0; h < 4; ++h)
          for (int64_t d = 0; d < 128; ++d)
            ASSERT_EQ((*a)(name, row, h, d), (*b)(name, row, h, d)) << name << " row " << row;
    for (const char* name : {"dq", "dk", "dg_raw"})
      for (int64_t h = 0; h < 4; ++h)
        for (int64_t d = 0; d < 128; ++d) ASSERT_EQ((*b)(name, 21, h, d), 0) << name;
  }
}

// An anchor by sub-chunk is made of the rows before it: whatever row changes, no bit before it does, the anchor of its
// own sub-chunk included; the next one does change, or there would be nothing to see.
TEST(KdaGates, T011NoAnchorFromTheFuture) {
  constexpr int64_t chunk = 32, rows = chunk + 18, heads = 1, dim = 64;
  for (const char* scan : {"fixed", "float"}) {
    const KdaConstants constants{chunk, dim, -5};
    EmulatedProgram program("kda_k1", constants.settings({{"anchor", "subchunk"}, {"scan", scan}}));
    for (const int64_t changed : {0, 15, 16, 31, 40, 48}) {
      SCOPED_TRACE(fmt::format("scan={} row {}", scan, changed));
      const auto run = [&](double gate) {
        auto call = std::make_unique<Call>(program, CallSizes{1, rows, heads});
        call->set("g_raw", [=](const At& at) {
          return at.row == changed ? gate : std::sin(static_cast<double>(at.row * 7 + at.d * 3 + at.h));
        });
        call->set("A_log", [](const At& at) { return 0.4 + 0.7 * static_cast<double>(at.h); });
        for (const char* name : {"dq_d", "dk_d", "dk_i"})
          call->set(name,
                    [=](const At& at) { return at.row < changed ? std::cos(static_cast<double>(at.row + at.d)) : 0; });
        call->set("dk_r", [=](const At& at) { return at.row < changed / chunk * chunk ? 0.5 : 0; });
        call->set("dg_T", [=](const At& at) { return at.row < changed / chunk ? 0.25 : 0; });
        call->forward().backward();
        return call;
      };
      const auto a = run(-3), b = run(9);
      const int64_t parts = chunk / 16, first_free = changed / 16 + 1;  // sub-chunks up to the changed row's own
      bool later_anchors_change = false;
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t d = 0; d < dim; ++d) {
          for (int64_t part = 0; part < first_free; ++part)
            ASSERT_EQ((*a)("q_d_anchor", part, h, d), (*b)("q_d_anchor", part, h, d)) << "sub-chunk " << part;
          for (int64_t part = first_free; part < 2 * parts; ++part)
            later_anchors_change |= (*a)("q_d_anchor", part, h, d) != (*b)("q_d_anchor", part, h, d);
          for (const char* name : {"q_d", "k_d", "k_i", "dq", "dk", "dg_raw"})
            for (int64_t row = 0; row < changed; ++row)
              ASSERT_EQ((*a)(name, row, h, d), (*b)(name, row, h, d)) << name << " row " << row;
          for (const char* name : {"dq", "dk", "dg_raw"}) ASSERT_EQ((*b)(name, changed, h, d), 0) << name;
        }
      EXPECT_EQ(later_anchors_change, changed % chunk < 16) << "the second sub-chunk of its tile";
    }
  }
}
