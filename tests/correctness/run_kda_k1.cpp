// SPDX-License-Identifier: Apache-2.0
// `run` on kda_k1: emitted text on the emulator against float64 on the cpu, in every layout, and bit for bit against
// itself. Inputs hold NaN wherever nothing may be read.
#include <gtest/gtest.h>

#include "tests/common/run_case.h"

using namespace kdagen::testing;

namespace {

const std::vector<std::string> precise{"dtype=f32", "out=f32", "grads=f32"};
const Sizes fixed{2, 21, 2};

Sizes packed(bool wide_offsets) {
  Sizes sizes;
  sizes.seqlens = {5, 0, 37, 16};
  sizes.dead_rows = 20;
  sizes.wide_offsets = wide_offsets;
  return sizes;
}

/// Gentle gates: decays within a chunk stay of the order of 1, so that plain noise is a fair cotangent.
TensorFile gentle(TensorFile file) {
  HostTensor& gates = file.tensors.at("g_raw");
  for (int64_t i = 0; i < gates.elements(); ++i) gates.set(i, gates.get(i) - 4);
  return file;
}

void expect_close(const TensorFile& text, const TensorFile& exact, double tolerance) {
  ASSERT_EQ(text.tensors.size(), exact.tensors.size());
  for (const auto& [name, tensor] : exact.tensors) {
    ASSERT_EQ(text.tensors.count(name), 1u) << name;
    const double difference = relative_difference(text.tensors.at(name), tensor);
    EXPECT_TRUE(difference <= tolerance) << name << " is off by " << difference;
  }
}

void expect_equal_bits(const TensorFile& a, const TensorFile& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) EXPECT_TRUE(tensor.data == b.tensors.at(name).data) << name;
}

/// Both passes on the emulator against the cpu.
void compare(std::vector<std::string> options, const Sizes& sizes, double tolerance) {
  const RunCase call("kda_k1", std::move(options), sizes);
  for (const char* pass : {"fwd", "bwd"}) {
    SCOPED_TRACE(pass);
    const TensorFile in = gentle(call.inputs(pass));
    expect_close(call.run(pass, "emulator", in), call.run(pass, "cpu", in), tolerance);
  }
}

std::vector<std::string> precise_and(std::vector<std::string> more) {
  more.insert(more.end(), precise.begin(), precise.end());
  return more;
}

}  // namespace

TEST(RunKdaK1, TokenMajor) { compare(precise, fixed, 2e-5); }
TEST(RunKdaK1, HeadMajor) { compare(precise_and({"layout=htd"}), fixed, 2e-5); }
TEST(RunKdaK1, TileMajorCotangents) { compare(precise_and({"upstream_layout=tile"}), packed(false), 2e-5); }
TEST(RunKdaK1, Offsets32) { compare(precise, packed(false), 2e-5); }
TEST(RunKdaK1, Offsets64HeadMajor) { compare(precise_and({"layout=htd"}), packed(true), 2e-5); }
TEST(RunKdaK1, StoredTypes) { compare({}, packed(true), 4e-3); }  // bf16 everywhere: two roundings of 2^-9
TEST(RunKdaK1, RowExponents) { compare(precise_and({"upstream=fp16row"}), fixed, 2e-5); }

TEST(RunKdaK1, ArithmeticOfTheKernelOnTheCpu) {
  const RunCase call("kda_k1", {}, fixed);
  const TensorFile in = gentle(call.inputs("bwd"));
  const TensorFile text = call.run("bwd", "emulator", in),
                   cpu = call.run("bwd", "cpu", in, {"--set", "arithmetic=f32"});
  for (const auto& [name, tensor] : text.tensors) EXPECT_EQ(cpu.tensors.at(name).dtype, tensor.dtype) << name;
  expect_close(cpu, text, 1e-3);
}

// T030
TEST(RunKdaK1, DeadRowsGetZeros) {
  const Sizes sizes = packed(false);
  const RunCase call("kda_k1", precise, sizes);
  const TensorFile in = gentle(call.inputs("bwd"));
  for (const char* on : {"cpu", "emulator"}) {
    const HostTensor dq = call.run("bwd", on, in).tensors.at("dq");
    const int64_t row = dq.elements() / call.problem().tokens;
    for (int64_t i = sizes.used() * row; i < dq.elements(); ++i) ASSERT_EQ(dq.get(i), 0) << on;
    EXPECT_NE(dq.get(sizes.used() * row - 1), 0) << on;
  }
}

TEST(RunKdaK1, TwoRunsAreBitEqual) {
  const RunCase call("kda_k1", {}, packed(false));
  const TensorFile in = gentle(call.inputs("bwd"));
  expect_equal_bits(call.run("bwd", "emulator", in), call.run("bwd", "emulator", in));
}

TEST(RunKdaK1, BothPassesRecomputeTheSameBits) {
  const RunCase call("kda_k1", {}, packed(false));
  const std::vector<std::string> names{"q_inv", "k_inv", "g_c", "e_T"};
  std::vector<std::string> taps;
  for (const std::string& name : names) taps.insert(taps.end(), {"--tap", name});
  const TensorFile forward = call.run("fwd", "emulator", gentle(call.inputs("fwd")), taps);
  const TensorFile backward = call.run("bwd", "emulator", gentle(call.inputs("bwd")), taps);
  for (const std::string& name : names) {
    ASSERT_EQ(forward.tensors.count(name), 1u) << name;
    EXPECT_TRUE(forward.tensors.at(name).data == backward.tensors.at(name).data) << name;
  }
  const TensorFile exact = call.run("fwd", "cpu", gentle(call.inputs("fwd")), taps);
  for (const std::string& name : names)
    EXPECT_TRUE(relative_difference(forward.tensors.at(name), exact.tensors.at(name)) <= 1e-6) << name;
}

// T053
TEST(RunKdaK1, SavedValuesAreHandedFromPassToPass) {
  const RunCase saving("kda_k1", precise_and({"save=g_c,e_T"}), packed(false)), plain("kda_k1", precise, packed(false));
  for (const char* on : {"cpu", "emulator"}) {
    SCOPED_TRACE(on);
    const TensorFile forward = saving.run("fwd", on, gentle(saving.inputs("fwd")));
    TensorFile in = gentle(plain.inputs("bwd"));
    const TensorFile recomputed = plain.run("bwd", on, in);
    EXPECT_EQ(saving.start("bwd", on, in).code, 2);  // g_c is missing
    for (const char* name : {"g_c", "e_T"}) in.tensors[name] = forward.tensors.at(name);
    expect_close(saving.run("bwd", on, in), recomputed, 1e-5);
  }
}
