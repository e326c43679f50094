// SPDX-License-Identifier: Apache-2.0
// Tails, packed sequences and padding: T028-T035, T037 and T105 of docs/traps.md. Inputs hold NaN in every row of no
// sequence.
#include <gtest/gtest.h>

#include "tests/common/kda_reference.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

const std::vector<std::string> rows{"q_d", "k_d", "k_i",    "k_r", "v_out",    "beta",
                                    "dq",  "dk",  "dg_raw", "dv",  "dbeta_raw"};

/// Elements of a row, or of a tile.
std::vector<std::byte> slice(const runtime::HostTensor& tensor, int64_t rows_of_tensor, int64_t first, int64_t count) {
  const int64_t bytes = static_cast<int64_t>(tensor.data.size()) / rows_of_tensor;
  return {tensor.data.begin() + first * bytes, tensor.data.begin() + (first + count) * bytes};
}

Fill offset(int64_t first, const std::string& name) {
  return [=](const At& at) {
    Draws draws(std::hash<std::string>()(name) + static_cast<uint64_t>(((at.row + first) * 64 + at.h) * 512 + at.d));
    return draws.uniform(-1, 1);
  };
}

/// Token tensors that depend on the token's number from `first` alone; per-chunk cotangents on the tile's from `tile`.
void fill(Call& call, int64_t first, int64_t first_tile) {
  for (const char* name : {"q", "k", "g_raw", "v", "beta_raw", "dq_d", "dk_d", "dk_i", "dk_r", "dv_out", "dbeta"})
    call.set(name, offset(first, name));
  call.set("dg_T", offset(first_tile, "dg_T"));
}

EmulatedProgram& preamble(int64_t chunk) {
  static std::map<int64_t, EmulatedProgram> programs;
  return programs.try_emplace(chunk, "kda_k1", KdaConstants{chunk, 64, chunk == 16 ? -5.0 : -1.25}.settings())
      .first->second;
}

void expect_same_rows(const Call& a, int64_t a_first, const Call& b, int64_t b_first, int64_t count) {
  const int64_t a_rows = a.problem().batch * a.problem().tokens, b_rows = b.problem().batch * b.problem().tokens;
  for (const std::string& name : rows)
    ASSERT_EQ(slice(a.tensor(name), a_rows, a_first, count), slice(b.tensor(name), b_rows, b_first, count)) << name;
}

}  // namespace

TEST(Tails, T028FixedLengthEqualsPacked) {
  for (const int64_t T : {1, 15, 16, 17, 31, 33, 63, 65, 500}) {
    Call batch(preamble(16), {2, T, 2});
    const int64_t tiles = (T + 15) / 16;
    fill(batch, 0, 0);
    batch.forward().backward();
    for (int64_t b = 0; b < 2; ++b) {
      Call alone(preamble(16), {1, 0, 2, {T}});
      fill(alone, b * T, b * tiles);
      alone.forward().backward();
      expect_same_rows(batch, b * T, alone, 0, T);
      for (const std::string& name : rows)
        for (const double value : values_of(batch.tensor(name)))
          ASSERT_TRUE(std::isfinite(value)) << name << " T " << T;
    }
  }
}

TEST(Tails, T029PaddingAddsNothingToParameters) {
  for (const bool bounded : {true, false})
    for (const double bias : {0, 10, -10}) {
      KdaConstants constants{16, 32, bounded ? -5.0 : 0.0};
      EmulatedProgram program(
          [&](Spec& s, const Options&, Axis t, Axis h, Axis d) {
            Value q = s.input("q", {t, h, d}), k = s.input("k", {t, h, d}), g_raw = s.input("g_raw", {t, h, d});
            Value A_log = s.param("A_log", {h}), dt_bias = s.param("dt_bias", {h, d});
            Value g = bounded ? -5.0 * log2e * sigmoid(exp(A_log) * (g_raw + dt_bias))
                              : -exp(A_log) * log2e * softplus(g_raw + dt_bias);
            Value g_c = cumsum(g, t), g_T = total(g, t);
            s.output("q_d", l2norm(q, d) * exp2(g_c) / std::sqrt(32.0));
            s.output("k_r", l2norm(k, d) * exp2(g_T - g_c));
            s.output("g_T", g_T).dtype(f32);
          },
          with(float_tensors, {{"dim", "32"}}));
      Call call(program, {1, 17, 2});
      call.set("A_log", 0).set("dt_bias", bias).forward().backward();
      const auto reference = kda_reference(call, {17}, constants);
      for (const char* name : {"g_T", "dA_log", "ddt_bias", "dg_raw", "q_d", "k_r"})
        EXPECT_TRUE(relative_rms(values_of(call.tensor(name)), reference.at(name)) <= 2e-5)
            << name << " bias " << bias << " bounded " << bounded;
      for (int64_t d = 0; d < 32; ++d) {  // the second tile is one token
        const double y = call("g_raw", 16, 1, d) + bias,
                     g = std::numbers::log2e * (bounded ? -5 * stable_sigmoid(y) : -stable_softplus(y));
        EXPECT_NEAR(call("g_T", 1, 1, d), g, 1e-5 * std::abs(g));
      }
    }
}

TEST(Tails, T030T031DeadRows) {
  Call plain(preamble(16), {1, 0, 2, {40, 60}});
  fill(plain, 0, 0);
  plain.forward().backward();
  for (const double dead : {nan_value, std::numeric_limits<double>::infinity(), 0.0, 1e30}) {
    Call longer(preamble(16), {1, 0, 2, {40, 60}, 28});
    for (const char* name : {"q", "k", "g_raw", "v", "beta_raw", "dq_d", "dk_d", "dk_i", "dk_r", "dv_out", "dbeta"})
      longer.set(name, offset(0, name), dead);
    longer.set("dg_T", [&](const At& at) { return at.row < 7 ? offset(0, "dg_T")(at) : dead; });
    longer.forward().backward();
    expect_same_rows(longer, 0, plain, 0, 100);
    for (const char* name : {"dA_log", "ddt_bias"})
      EXPECT_EQ(longer.tensor(name).data, plain.tensor(name).data) << name;
    for (const char* name : {"dq", "dk", "dg_raw", "dv"})
      for (int64_t row = 100; row < 128; ++row)
        for (int64_t d = 0; d < 64; ++d) ASSERT_EQ(longer(name, row, 1, d), 0) << name;
  }
}

TEST(Tails, T032EmptySequences) {
  Call sparse(preamble(16), {1, 0, 2, {0, 5, 0, 0, 16, 0}}), dense(preamble(16), {1, 0, 2, {5, 16}});
  for (Call* call : {&sparse, &dense}) fill(*call, 0, 0), call->forward().backward();
  expect_same_rows(sparse, 0, dense, 0, 21);
  for (const char* name : {"dA_log", "ddt_bias"}) EXPECT_EQ(sparse.tensor(name).data, dense.tensor(name).data) << name;
  for (int64_t tile = 0; tile < 2; ++tile)
    for (int64_t d = 0; d < 64; ++d) ASSERT_EQ(sparse("g_T", tile, 1, d), dense("g_T", tile, 1, d));
}

TEST(Tails, T033LengthsOfNoneAndOne) {
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{0, 1, 0, 1}, {1, 1, 1}}) {
    Call call(preamble(16), {1, 0, 1, lengths});
    fill(call, 0, 0);
    call.set("A_log", 0.3).forward().backward();
    const auto reference = kda_reference(call, lengths, {16, 64, -5});
    for (const char* name : {"q_d", "k_d", "k_i", "k_r", "dq", "dk", "dg_raw", "dA_log", "ddt_bias"})
      EXPECT_TRUE(relative_rms(values_of(call.tensor(name)), reference.at(name)) <= 1e-2) << name;
    for (int64_t d = 0; d < 64; ++d) {
      const double g = -5 * std::numbers::log2e *
                       stable_sigmoid(std::exp(0.3) * (call("g_raw", 0, 0, d) + call("dt_bias", 0, 0, d)));
      EXPECT_NEAR(call("g_T", 0, 0, d), g, 1e-5);
      EXPECT_NEAR(call("k_i", 0, 0, d) * std::exp2(g), call("k_r", 0, 0, d), 1e-2 * std::abs(call("k_r", 0, 0, d)));
    }
  }
}

// The emulator reports a read outside the N+1 offsets, which lie alone in memory.
TEST(Tails, T034OffsetsAreReadWithinTheirArray) {
  for (const runtime::OffsetType type : {runtime::OffsetType::i32, runtime::OffsetType::i64})
    for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{1}, {17, 3}, {5, 33, 16}}) {
      Call call(preamble(16), {1, 0, 3, lengths, 7, type});
      fill(call, 0, 0);
      EXPECT_NO_THROW(call.forward().backward());
      int64_t first = 0, tile = 0;
      for (int64_t length : lengths) {
        Call alone(preamble(16), {1, 0, 3, {length}});
        fill(alone, first, tile);
        alone.forward().backward();
        expect_same_rows(call, first, alone, 0, length);
        first += length, tile += (length + 15) / 16;
      }
    }
}

TEST(Tails, T035ScansRestartAtEachSequence) {
  for (const int64_t chunk : {16, 64}) {
    const std::vector<int64_t> lengths{10, 27, 63};
    Call packed(preamble(chunk), {1, 0, 2, lengths});
    fill(packed, 0, 0);
    packed.forward().backward();
    int64_t first = 0, tile = 0;
    std::map<std::string, std::vector<double>> sums{{"dA_log", std::vector<double>(2)},
                                                    {"ddt_bias", std::vector<double>(2 * 64)}},
        sizes = sums;
    for (int64_t length : lengths) {
      Call alone(preamble(chunk), {1, length, 2});
      fill(alone, first, tile);
      alone.forward().backward();
      expect_same_rows(packed, first, alone, 0, length);
      for (auto& [name, sum] : sums)
        for (size_t i = 0; i < sum.size(); ++i)
          sum[i] += alone.tensor(name).get(i), sizes[name][i] += std::abs(alone.tensor(name).get(i));
      first += length, tile += (length + chunk - 1) / chunk;
    }
    for (auto& [name, sum] : sums)
      for (size_t i = 0; i < sum.size(); ++i)
        ASSERT_NEAR(packed.tensor(name).get(i), sum[i], 1e-6 * sizes[name][i]) << name;
  }
}

TEST(Tails, T037HeadMajorWithOffsets) {
  EmulatedProgram head_major("kda_k1", KdaConstants{16, 64, -5}.settings({{"layout", "htd"}}));
  for (const int64_t heads : {1, 3}) {
    Call tokens(preamble(16), {1, 0, heads, {10, 27}}), transposed(head_major, {1, 0, heads, {10, 27}});
    for (Call* call : {&tokens, &transposed}) fill(*call, 0, 0), call->forward().backward();
    for (const std::string& name : rows)
      for (int64_t row = 0; row < 37; ++row)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t d = 0; d < (name.find("beta") == std::string::npos ? 64 : 1); ++d)
            ASSERT_EQ(tokens(name, row, h, d), transposed(name, row, h, d)) << name;
    for (const char* name : {"dA_log", "ddt_bias"}) EXPECT_EQ(tokens.tensor(name).data, transposed.tensor(name).data);
  }
}

// A table of tiles made for an address would outlive what it was made of.
TEST(Tails, T105OffsetsChangedInPlace) {
  Call call(preamble(16), {1, 0, 1, {5, 16, 79}}), other(preamble(16), {1, 0, 1, {60, 1, 39}});
  fill(call, 0, 0), fill(other, 0, 0);
  call.forward(), other.forward();
  auto* offsets = static_cast<int32_t*>(const_cast<void*>(call.problem().cu_seqlens));
  std::copy_n(static_cast<const int32_t*>(other.problem().cu_seqlens), 4, offsets);
  call.forward();
  for (const char* name : {"q_d", "k_d", "k_i", "k_r"})
    EXPECT_EQ(call.tensor(name).data, other.tensor(name).data) << name;
}
