// SPDX-License-Identifier: Apache-2.0
// Emitted text on a device: sums that repeat their bits, outputs that are overwritten, places beyond 32 bits.
#include <thread>

#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "runtime/driver.h"
#include "tests/common/emulated_program.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

class TrapsOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!runtime::driver_status().ok) GTEST_SKIP() << runtime::driver_status().reason;
    try {
      runtime::default_cuda_compiler();
    } catch (const ToolchainError& error) {
      GTEST_SKIP() << error.what();
    }
  }

  static std::unique_ptr<runtime::CudaKernel> kernel_of(const EmulatedProgram& program, Pass pass) {
    auto [text, manifest] = program.emit(pass, runtime::device_info(0).arch);
    return runtime::make_cuda_kernel(std::move(text), std::move(manifest));
  }
  /// The tensors of the pass of a prepared call.
  static TensorBuffers buffers_of(const Call& call, const runtime::Kernel& kernel) {
    TensorBuffers buffers;
    for (const runtime::TensorInfo& info : kernel.manifest().tensors)
      if (call.has(info.name)) buffers[info.name] = call.tensor(info.name);
    return buffers;
  }
  static void expect_same_outputs(const TensorBuffers& a, const TensorBuffers& b, const runtime::Kernel& kernel) {
    for (const runtime::TensorInfo& info : kernel.manifest().tensors)
      if (info.direction == runtime::Direction::out) EXPECT_EQ(a.at(info.name).data, b.at(info.name).data) << info.name;
  }
};

}  // namespace

TEST_F(TrapsOnDevice, T023T026SumsRepeatTheirBits) {
  EmulatedProgram scaled([](Spec& s, const Options&, Axis t, Axis h,
                            Axis d) { s.output("y", s.param("a", {}) * s.input("x", {t, h, d})); },
                         {{"dim", "256"}, {"dtype", "f32"}, {"out", "f32"}, {"grads", "f32"}});
  EmulatedProgram preamble("kda_k1", {});
  Call scalar(scaled, {1, 4000, 1}), gates(preamble, {1, 0, 4, {37, 0, 700, 263}});
  scalar.set("dy", 1).prepare(Pass::bwd);
  gates.prepare(Pass::bwd);
  const auto scaled_kernel = kernel_of(scaled, Pass::bwd), gates_kernel = kernel_of(preamble, Pass::bwd);
  const auto repeat = [&](Call& call, runtime::Kernel& kernel) {
    const TensorBuffers before = buffers_of(call, kernel);
    TensorBuffers first = before;
    launch_on_host(kernel, first, call.problem(), 0);
    for (int i = 0; i < 50; ++i) {
      TensorBuffers again = before;
      launch_on_host(kernel, again, call.problem(), 0);
      expect_same_outputs(again, first, kernel);
    }
    return first;
  };
  std::thread beside([&] { repeat(gates, *gates_kernel); });  // each loads the device for the other
  const TensorBuffers result = repeat(scalar, *scaled_kernel);
  beside.join();
  double sum = 0, size = 0;
  for (const double x : values_of(scalar.tensor("x"))) sum += x, size += std::abs(x);
  EXPECT_NEAR(result.at("da").get(0), sum, 1e-5 * std::abs(sum) + 1e-9 * size);
}

TEST_F(TrapsOnDevice, T060OutputsAreOverwritten) {
  EmulatedProgram preamble("kda_k1", {});
  Call call(preamble, {1, 0, 2, {21, 40}, 9});
  call.prepare(Pass::bwd);
  const auto kernel = kernel_of(preamble, Pass::bwd);
  TensorBuffers nan = buffers_of(call, *kernel), sevens = nan;
  for (const runtime::TensorInfo& info : kernel->manifest().tensors)
    if (info.direction == runtime::Direction::out)
      for (int64_t i = 0; i < sevens.at(info.name).elements(); ++i) sevens.at(info.name).set(i, 7);
  launch_on_host(*kernel, nan, call.problem(), 0);
  for (int i = 0; i < 2; ++i)
    launch_on_host(*kernel, sevens, call.problem(), 0);  // the second time over its own results
  expect_same_outputs(sevens, nan, *kernel);
}

// Tokens so far apart that the last one lies past 2^32 elements, at an aligned and at an odd distance.
TEST_F(TrapsOnDevice, T038T039T040T041PlacesBeyond32Bits) {
  EmulatedProgram program("rmsnorm", {});
  for (const int64_t odd : {0, 1})
    for (const Pass pass : {Pass::fwd, Pass::bwd}) {
      Call call(program, {1, 17, 2});
      call.prepare(pass);
      const auto kernel = kernel_of(program, pass);
      TensorBuffers expected = buffers_of(call, *kernel), strided = expected;
      launch_on_host(*kernel, expected, call.problem(), 0);
      const int64_t token = (int64_t{1} << 32) / 16 + 128 + odd;
      std::vector<runtime::DeviceBuffer> memory;
      std::vector<runtime::TensorRef> refs;
      std::map<std::string, size_t> wide;
      try {
        for (auto& [name, tensor] : strided) {
          refs.push_back(runtime::ref(name, tensor));
          refs.back().device_ordinal = 0;
          const int64_t bytes = static_cast<int64_t>(tensor.data.size()), row = bytes / 17,
                        pitch = token * runtime::size_of(tensor.dtype);
          const bool rows = runtime::is_row_tensor(kernel->manifest(), *kernel->manifest().find_tensor(name));
          memory.emplace_back(0, rows ? 16 * pitch + row : bytes);
          refs.back().data = memory.back().data();
          if (!rows) memory.back().upload(tensor.data.data(), bytes);
          if (!rows) continue;
          for (int64_t t = 0; t < 17; ++t) memory.back().upload(tensor.data.data() + t * row, row, t * pitch);
          refs.back().strides[1] = token, refs.back().strides[0] = 17 * token;
          wide[name] = memory.size() - 1;
        }
      } catch (const Error& error) {
        GTEST_SKIP() << "not enough device memory: " << error.what();
      }
      const runtime::Stream stream(0);
      runtime::LaunchOptions options;
      options.stream = stream.get();
      kernel->launch(refs, call.problem(), options);
      stream.synchronize();
      size_t place = 0;
      for (auto& [name, tensor] : strided) {
        const int64_t row = static_cast<int64_t>(tensor.data.size()) / 17,
                      pitch = token * runtime::size_of(tensor.dtype);
        if (!wide.count(name))
          memory[place].download(tensor.data.data(), static_cast<int64_t>(tensor.data.size()));
        else
          for (int64_t t = 0; t < 17; ++t) memory[place].download(tensor.data.data() + t * row, row, t * pitch);
        ++place;
      }
      expect_same_outputs(strided, expected, *kernel);
    }
}
