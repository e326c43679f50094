// SPDX-License-Identifier: Apache-2.0
// Sizes, strides and layouts: T036, T044-T046, T049, T050, T060, T061 of docs/traps.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/strided_call.h"

using namespace kdagen;
using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

EmulatedProgram& preamble() {
  static EmulatedProgram program("kda_k1", {{"dim", "64"}});
  return program;
}

std::string failure_of(const std::function<void()>& action) {
  try {
    action();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::vector<const runtime::TensorInfo*> tensors_of(Call& call, Pass pass) {
  std::vector<const runtime::TensorInfo*> result;
  for (const runtime::TensorInfo& info : call.kernel(pass).manifest().tensors)
    if (call.has(info.name)) result.push_back(&info);
  return result;
}

/// Outputs of the pass with contiguous tensors, by name.
std::map<std::string, std::vector<std::byte>> plain_outputs(Call& call, Pass pass) {
  call.run(pass);
  std::map<std::string, std::vector<std::byte>> bits;
  for (const std::string& name : call.outputs(pass)) bits[name] = call.tensor(name).data;
  return bits;
}

void expect_bits(const Call& call, const std::map<std::string, std::vector<std::byte>>& bits, const std::string& what) {
  for (const auto& [name, data] : bits) EXPECT_EQ(call.tensor(name).data, data) << name << " with " << what;
}

}  // namespace

TEST(Layouts, T036OffsetsWithABatchAreRefused) {
  Call call(preamble(), {1, 0, 1, {64, 64}});
  call.prepare(Pass::bwd);
  runtime::Problem problem = call.problem();
  problem.batch = 2, problem.tokens = 64;
  std::vector<runtime::TensorRef> refs;
  for (const runtime::TensorInfo* info : tensors_of(call, Pass::bwd))
    refs.push_back(runtime::ref(info->name, call.tensor(info->name)));
  EXPECT_THAT(failure_of([&] { call.kernel(Pass::bwd).launch(refs, problem); }), HasSubstr("batch 1"));
}

TEST(Layouts, T044CotangentsWithStridesOfTheirOwn) {
  Call call(preamble(), {2, 21, 3});
  const auto expected = plain_outputs(call, Pass::bwd);
  const int64_t D = 64, H = 3, T = 21;
  StridedCopy half("dq_d", call.tensor("dq_d"), {2 * T * H * D, H * D, D, 1}),
      padded("dk_d", call.tensor("dk_d"), {2 * T * H * D + 8, H * D, D, 1});
  StridedCopy transposed("dk_i", call.tensor("dk_i"), {H * T * D, D, T * D, 1});
  call.prepare(Pass::bwd);
  launch_with(call, Pass::bwd, {&half, &padded, &transposed});
  expect_bits(call, expected, "strided cotangents");
}

TEST(Layouts, T045InnermostStrides) {
  Call call(preamble(), {1, 5, 2});
  for (const Pass pass : {Pass::fwd, Pass::bwd}) {
    call.prepare(pass);
    for (const runtime::TensorInfo* info : tensors_of(call, pass)) {
      const runtime::HostTensor& tensor = call.tensor(info->name);
      if (runtime::dimensions(call.kernel(pass).manifest(), *info).back() != runtime::DimRole::feature) continue;
      runtime::Dims strides = runtime::contiguous_strides(tensor.shape);
      for (size_t i = 0; i < strides.size(); ++i) strides[i] *= 2;
      StridedCopy copy(info->name, tensor, strides);
      EXPECT_THAT(failure_of([&] { launch_with(call, pass, {&copy}); }),
                  AllOf(HasSubstr("\"" + info->name + "\""),
                        ::testing::AnyOf(HasSubstr("innermost"), HasSubstr("contiguous"))));
    }
  }
}

TEST(Layouts, T046MisalignedBases) {
  Call call(preamble(), {1, 19, 2});
  for (const Pass pass : {Pass::fwd, Pass::bwd}) {
    const auto expected = plain_outputs(call, pass);
    for (const runtime::TensorInfo* info : tensors_of(call, pass))
      for (const int64_t start : {1, 2, 4}) {
        call.prepare(pass);
        StridedCopy copy(info->name, call.tensor(info->name),
                         runtime::contiguous_strides(call.tensor(info->name).shape), start);
        launch_with(call, pass, {&copy});
        expect_bits(call, expected, fmt::format("{} from element {}", info->name, start));
        EXPECT_TRUE(copy.gaps_untouched()) << info->name;
      }
  }
}

TEST(Layouts, T049ColumnsOfWiderRows) {
  for (const char* dim : {"80"}) {
    const int64_t D = std::stoi(dim), wide = 128, H = 2, T = 21;
    EmulatedProgram program("kda_k1", {{"dim", dim}});
    Call call(program, {1, T, H});
    for (const Pass pass : {Pass::fwd, Pass::bwd}) {
      const auto expected = plain_outputs(call, pass);
      call.prepare(pass);
      std::vector<StridedCopy> copies;
      for (const runtime::TensorInfo* info : tensors_of(call, pass))
        if (call.tensor(info->name).shape.size() == 4)
          copies.emplace_back(info->name, call.tensor(info->name), runtime::Dims{T * H * wide, H * wide, wide, 1});
      std::vector<StridedCopy*> pointers;
      for (StridedCopy& copy : copies) pointers.push_back(&copy);
      launch_with(call, pass, pointers);
      expect_bits(call, expected, "rows of 128 columns");
      for (const StridedCopy& copy : copies) EXPECT_TRUE(copy.gaps_untouched()) << copy.ref.name;
    }
    EXPECT_EQ(call.tensor("dq").shape[3], D);
  }
}

// A head that others share is a view with stride 0; gradients come for every reader, and their sum is the caller's.
TEST(Layouts, T050HeadsThatShareAKey) {
  const int64_t T = 33, H = 8, D = 64;
  EmulatedProgram program("kda_k1", with(float_tensors, {{"dim", "64"}}));
  Call call(program, {1, T, H});
  call.set("k", [](const At& at) { return std::sin(static_cast<double>(at.row * 64 + at.d + 999 * (at.h / 4))); });
  const auto expected = plain_outputs(call, Pass::bwd);
  call.prepare(Pass::bwd);
  runtime::HostTensor& k = call.tensor("k");
  runtime::HostTensor two(k.dtype, {1, T, 2, D});
  for (int64_t row = 0; row < T; ++row)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t d = 0; d < D; ++d) two.set((row * 2 + h) * D + d, call("k", row, 4 * h, d));
  // Two launches of four heads; in each k is one head for all.
  for (int64_t group = 0; group < 2; ++group) {
    std::vector<runtime::TensorRef> refs;
    for (const runtime::TensorInfo* info : tensors_of(call, Pass::bwd)) {
      runtime::TensorRef ref = runtime::ref(info->name, call.tensor(info->name));
      const std::vector<runtime::DimRole> roles = runtime::dimensions(call.kernel(Pass::bwd).manifest(), *info);
      for (size_t i = 0; i < roles.size(); ++i)
        if (roles[i] == runtime::DimRole::head) {
          ref.shape[i] = 4;
          ref.data = static_cast<char*>(ref.data) + 4 * group * ref.strides[i] * runtime::size_of(ref.dtype);
        }
      if (info->name == "k") ref.data = two.data.data() + group * D * 4, ref.strides = {T * 2 * D, 2 * D, 0, 1};
      refs.push_back(ref);
    }
    runtime::Problem problem = call.problem();
    problem.heads = 4;
    call.kernel(Pass::bwd).launch(refs, problem);
  }
  expect_bits(call, expected, "a shared key");
  EXPECT_THAT(failure_of([] {
                EmulatedProgram([](Spec& s, const Options&, Axis t, Axis h, Axis d) {
                  s.output("y", sum(s.input("x", {t, h, d}), h));
                });
              }),
              AllOf(HasSubstr("head axis"), HasSubstr("layouts_kda_k1.cpp")));
}

TEST(Layouts, T060GradientsAreOverwritten) {
  Call call(preamble(), {1, 21, 2});
  const auto expected = plain_outputs(call, Pass::bwd);
  for (int round = 0; round < 2; ++round) {
    std::vector<StridedCopy> copies;
    for (const std::string& name : call.outputs(Pass::bwd)) {
      runtime::HostTensor sevens = call.tensor(name);
      if (round == 0)
        for (int64_t i = 0; i < sevens.elements(); ++i) sevens.set(i, 7);
      copies.emplace_back(name, sevens, runtime::contiguous_strides(sevens.shape));
    }
    std::vector<StridedCopy*> pointers;
    for (StridedCopy& copy : copies) pointers.push_back(&copy);
    launch_with(call, Pass::bwd, pointers);
    expect_bits(call, expected, "sevens or an earlier result");
  }
}

TEST(Layouts, T061GradientsInMemoryOfInputs) {
  Call call(preamble(), {1, 21, 2});
  call.prepare(Pass::bwd);
  const auto before = call.tensors();
  for (const auto& [output, input] : {std::pair("dq", "q"), {"dg_raw", "g_raw"}, {"dk", "dk"}, {"dv", "dk"}}) {
    std::vector<runtime::TensorRef> refs;
    for (const runtime::TensorInfo* info : tensors_of(call, Pass::bwd))
      refs.push_back(runtime::ref(info->name, call.tensor(info->name)));
    for (runtime::TensorRef& ref : refs)
      if (ref.name == output && std::string(output) != input) ref.data = call.tensor(input).data.data();
    const std::string failure = failure_of([&] { call.kernel(Pass::bwd).launch(refs, call.problem()); });
    if (std::string(output) == input)
      EXPECT_EQ(failure, "");
    else
      EXPECT_THAT(failure, AllOf(HasSubstr(output), HasSubstr(input)));
    for (const char* name : {"q", "k", "g_raw", "dq_d"})
      EXPECT_EQ(call.tensor(name).data, before.at(name).data) << name;
  }
}
