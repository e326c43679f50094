// SPDX-License-Identifier: Apache-2.0
// Sizes, strides and layouts: T036, T038-T050, T060, T061 of docs/traps.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "runtime/binding.h"
#include "runtime/compile.h"
#include "runtime/emulator/emulator.h"
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

const test::Body weighted = [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
  Value x = s.input("x", {t, h, d});
  s.output("y", s.param("w", {h, d}) * rmsnorm(x, d) * exp2(cumsum(-sigmoid(x), t)));
};

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

// Token strides as in tensors of more than 2^32 elements, in memory that is there where it is touched.
TEST(Layouts, T038T039T040T041PlacesBeyond32Bits) {
  for (const Pass pass : {Pass::fwd, Pass::bwd})
    for (const bool packed : {false, true}) {
      CallSizes sizes{1, 17, 2};
      if (packed) sizes.seqlens = {3, 14};
      Call call(preamble(), sizes);
      const auto expected = plain_outputs(call, pass);
      const runtime::Kernel& kernel = call.kernel(pass);
      const auto slots = runtime::workspace_layout(kernel.manifest(), call.problem());
      constexpr int64_t token =
          (int64_t{1} << 32) / 16 + 131;  // the last token lies past 2^32 elements, at an odd place
      std::vector<std::shared_ptr<void>> memory;
      std::vector<runtime::TensorRef> refs;
      std::map<std::string, char*> bases;
      for (const runtime::TensorInfo* info : tensors_of(call, pass)) {
        runtime::HostTensor& tensor = call.tensor(info->name);
        refs.push_back(runtime::ref(info->name, tensor));
        if (!runtime::is_row_tensor(kernel.manifest(), *info)) continue;
        const int64_t size = runtime::size_of(tensor.dtype), row = static_cast<int64_t>(tensor.data.size()) / 17;
        memory.push_back(emulator::allocate_guarded(17 * token * size));
        char* const base = bases[info->name] = static_cast<char*>(memory.back().get());
        for (int64_t t = 0; t < 17; ++t) std::memcpy(base + t * token * size, tensor.data.data() + t * row, row);
        refs.back().data = base;
        refs.back().strides[1] = token, refs.back().strides[0] = 17 * token;
      }
      const runtime::Binding binding = runtime::bind_tensors(kernel.manifest(), call.problem(), refs);
      ASSERT_FALSE(binding.aligned);
      std::vector<char> workspace(slots.bytes + 256);
      void* const aligned = workspace.data() + (256 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 256) % 256;
      const auto words = runtime::build_words(kernel.manifest(), call.problem(), binding, slots, aligned);
      runtime::CompileOptions options;
      options.kernel = kernel.manifest().kernel;
      options.emulator_check = false;
      const runtime::CompiledText compiled = runtime::compile_host(kernel.text(), options);
      ASSERT_FALSE(compiled.file.empty());
      const emulator::Module module(compiled.file.string());
      for (const runtime::LaunchStep& step : runtime::launch_steps(kernel.manifest(), call.problem(), binding))
        EXPECT_TRUE(emulator::run(module, step.entry, {step.grid[0], step.grid[1], step.grid[2]},
                                  {static_cast<unsigned>(step.info->block), 1, 1},
                                  static_cast<size_t>(step.info->shared_bytes), words.data(), words.size(), {},
                                  {.check = false})
                        .empty());
      for (const auto& [name, base] : bases) {
        runtime::HostTensor& tensor = call.tensor(name);
        const int64_t row = static_cast<int64_t>(tensor.data.size()) / 17;
        for (int64_t t = 0; t < 17; ++t)
          std::memcpy(tensor.data.data() + t * row, base + t * token * runtime::size_of(tensor.dtype), row);
      }
      expect_bits(call, expected, packed ? "offsets" : "fixed length");
    }
}

TEST(Layouts, T042MoreInstancesThanAGridDimension) {
  EmulatedProgram program(weighted, {{"dim", "16"}});
  Call all(program, {10923, 1, 6});
  all.forward().backward();
  Call packed(program, {1, 0, 32, std::vector<int64_t>(2050, 1)});
  packed.forward().backward();
  for (Call* call : {&all, &packed}) {
    const int64_t tokens = call->problem().batch * call->problem().tokens;
    for (const int64_t row : {int64_t{0}, tokens / 2, tokens - 1})
      for (int64_t h = 0; h < call->problem().heads; ++h) {
        double squares = 0, along = 0;
        for (int64_t d = 0; d < 16; ++d) squares += std::pow((*call)("x", row, h, d), 2) / 16;
        for (int64_t d = 0; d < 16; ++d) {
          const double x = (*call)("x", row, h, d), decay = std::exp2(-1 / (1 + std::exp(-x)));
          const double y = (*call)("w", 0, h, d) * x / std::sqrt(squares + 1e-6) * decay;
          ASSERT_NEAR((*call)("y", row, h, d), y, 5e-3 * std::abs(y)) << row;
          along += y;
        }
        ASSERT_NE(along, 0);
      }
    for (const double value : values_of(call->tensor("dx"))) ASSERT_TRUE(std::isfinite(value));
    for (const double value : values_of(call->tensor("dw"))) ASSERT_TRUE(std::isfinite(value) && value != 0);
  }
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

TEST(Layouts, T047T048Widths) {
  const auto check = [](const Settings& settings, int64_t D) {
    EmulatedProgram program(weighted, with(with(float_tensors, {{"dim", std::to_string(D)}}), settings));
    Call call(program, {1, 33, 2});
    call.forward().backward();
    std::vector<double> y, dw(2 * D);
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t row = 0; row < 33; ++row) {
        double squares = 1e-6;
        for (int64_t d = 0; d < D; ++d) squares += std::pow(call("x", row, h, d), 2) / static_cast<double>(D);
        for (int64_t d = 0; d < D; ++d) {
          double gates = 0;
          for (int64_t r = row / 16 * 16; r <= row; ++r) gates -= 1 / (1 + std::exp(-call("x", r, h, d)));
          const double product = call("x", row, h, d) / std::sqrt(squares) * std::exp2(gates);
          ASSERT_NEAR(call("y", row, h, d), call("w", 0, h, d) * product, 1e-5 * std::abs(product)) << "dim " << D;
          dw[h * D + d] += product * call("dy", row, h, d);
        }
      }
    EXPECT_TRUE(relative_rms(values_of(call.tensor("dw")), dw) <= 2e-5) << "dim " << D;
  };
  for (const int64_t dim : {16, 48, 112, 256}) check({}, dim);
  for (const int64_t dim : {100, 120}) check({{"schedule", "threads=128"}}, dim);
  for (const char* dim : {"127", "8", "260"})
    EXPECT_THAT(failure_of([&] { EmulatedProgram(weighted, {{"dim", dim}}); }),
                AllOf(HasSubstr("dim"), HasSubstr("multiple of 4 from 16 to 256")));
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
