// SPDX-License-Identifier: Apache-2.0
// The hand-written kernel on a real device, by both compilers.
#include <dlfcn.h>

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "runtime/benchmarking.h"
#include "runtime/kernel.h"
#include "runtime/process.h"
#include "tests/common/row_scale.h"
#include "tests/common/row_scale_on_device.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;
using ::testing::HasSubstr;

namespace {

class OnDevice : public ::testing::TestWithParam<CompilerChoice> {
 protected:
  void SetUp() override {
    if (!driver_status().ok) GTEST_SKIP() << driver_status().reason;
    try {
      find_compiler(GetParam());
    } catch (const kdagen::ToolchainError& error) {
      GTEST_SKIP() << error.what();
    }
    KernelOptions options;
    options.compiler = GetParam();
    kernel = make_cuda_kernel(row_scale_text, row_scale_manifest(), options);
  }
  void launch_and_check(RowScaleCase host, int device = 0) {
    DeviceCase call(device, std::move(host));
    Stream stream(device);
    LaunchOptions options;
    options.stream = stream.get();
    kernel->launch(call.tensors(), call.data.problem, options);
    stream.synchronize();
    call.expect_right();
  }
  std::unique_ptr<CudaKernel> kernel;
};

RowScaleCase packed(std::int64_t tokens, std::int64_t heads, const std::vector<std::int64_t>& offsets,
                    OffsetType type) {
  RowScaleCase host(1, tokens, heads);
  host.pack(offsets, type);
  return host;
}

/// Functions that only this test needs.
template <class Function>
Function driver_function(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Compilers, OnDevice, ::testing::Values(CompilerChoice::nvrtc, CompilerChoice::nvcc),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// T046
TEST_P(OnDevice, FixedLengthEveryAlignment) {
  for (const std::int64_t tokens : {1, 5, 300})
    for (const std::int64_t shift : {0, 1, 2})
      for (const std::int64_t spread : {0, 1, 4}) launch_and_check(RowScaleCase(2, tokens, 3, shift, spread));
}

TEST_P(OnDevice, Packed) {
  launch_and_check(packed(21, 2, {0, 0, 5, 5, 6, 13, 13}, OffsetType::i64));
  launch_and_check(packed(1000, 3, {0, 999}, OffsetType::i64));
}

// T043
TEST_P(OnDevice, NothingToDo) {
  launch_and_check(RowScaleCase(0, 5, 2));
  launch_and_check(RowScaleCase(2, 0, 2));
  launch_and_check(packed(5, 2, {0}, OffsetType::i64));
}

// T091
TEST_P(OnDevice, SeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) launch_and_check(RowScaleCase(1 + i % 3, 17 + round, 2));
    });
  for (std::thread& thread : threads) thread.join();
}

// Memory freed by one launch and filled by others at once must not be its workspace.
// T101
TEST_P(OnDevice, WorkspaceIsOrderedByTheStream) {
  DeviceCase call(0, RowScaleCase(2, 64, 4));
  Stream stream(0), other(0);
  LaunchOptions options, elsewhere;
  options.stream = stream.get();
  elsewhere.stream = other.get();
  DeviceCase second(0, RowScaleCase(2, 50, 4));
  for (int i = 0; i < 200; ++i) {
    kernel->launch(call.tensors(), call.data.problem, options);
    kernel->launch(second.tensors(), second.data.problem, elsewhere);
  }
  stream.synchronize();
  other.synchronize();
  call.expect_right();
  second.expect_right();
}

// T102 T103 T105
TEST_P(OnDevice, CaptureAndReplay) {
  const auto begin = driver_function<int (*)(void*, int)>("cuStreamBeginCapture_v2");
  const auto end = driver_function<int (*)(void*, void**)>("cuStreamEndCapture");
  const auto instantiate = driver_function<int (*)(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags");
  const auto replay = driver_function<int (*)(void*, void*)>("cuGraphLaunch");
  DeviceCase call(0, packed(21, 2, {0, 5, 13}, OffsetType::i64));
  Stream stream(0);
  LaunchOptions options;
  options.stream = stream.get();
  const ContextScope scope(0);
  constexpr int global = 0;
  ASSERT_EQ(begin(stream.get(), global), 0);
  try {
    kernel->launch(call.tensors(), call.data.problem, options);
    ADD_FAILURE() << "a cold kernel was launched inside a capture";
  } catch (const kdagen::UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("warm_up"));
  }
  void *graph = nullptr, *executable = nullptr;
  EXPECT_EQ(end(stream.get(), &graph), 0) << "the capture was spoilt";
  kernel->warm_up(0);
  ASSERT_EQ(begin(stream.get(), global), 0);
  kernel->launch(call.tensors(), call.data.problem, options);
  ASSERT_EQ(end(stream.get(), &graph), 0);
  ASSERT_EQ(instantiate(&executable, graph, 0), 0);
  for (int i = 0; i < 3; ++i) {
    call.y.upload(std::vector<float>(call.data.y.size(), -7.0f).data(), call.y.bytes());
    ASSERT_EQ(replay(executable, stream.get()), 0);
    stream.synchronize();
    call.expect_right();
  }
  // The offsets are read at each replay.
  call.data.offsets64 = {0, 2, 20};
  call.offsets.upload(call.data.offsets64.data(), call.offsets.bytes());
  ASSERT_EQ(replay(executable, stream.get()), 0);
  stream.synchronize();
  call.expect_right();
}

// T097
TEST_P(OnDevice, EveryDevice) {
  for (int device = 0; device < driver_status().device_count; ++device) launch_and_check(RowScaleCase(1, 9, 2), device);
}

TEST_P(OnDevice, ReportAndTime) {
  const std::vector<EntryReport> reports = kernel->report(0);
  ASSERT_EQ(reports.size(), 9u);
  for (const EntryReport& report : reports) {
    EXPECT_EQ(report.attributes.registers, report.resources.registers) << report.entry;
    EXPECT_GT(report.attributes.blocks_per_multiprocessor, 0);
  }
  DeviceCase call(0, RowScaleCase(1, 9, 2));
  Stream stream(0);
  LaunchOptions options;
  options.stream = stream.get();
  const auto times =
      time_on_stream(0, stream.get(), 2, 5, [&] { kernel->launch(call.tensors(), call.data.problem, options); });
  ASSERT_EQ(times.size(), 5u);
  for (const float time : times) EXPECT_GT(time, 0.0f);
}

TEST_P(OnDevice, TextAndManifestThatDoNotBelongTogether) {
  Manifest manifest = row_scale_manifest();
  manifest.arguments.push_back({"more", ArgumentKind::size, "", "tokens"});
  const auto other = make_cuda_kernel(row_scale_text, manifest, kernel->options());
  try {
    other->warm_up(0);
    if (driver().FuncGetParamInfo) FAIL();
  } catch (const kdagen::UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("belong together"));
  }
}

// Loses the context of its process, so it runs in one of its own: see below.
TEST_P(OnDevice, DISABLED_Fault) {
  std::string text = row_scale_text;
  text.insert(text.find("  KD_SHARED"), "  *reinterpret_cast<volatile float*>(64ull) = 1.0f;\n");
  const auto faulty = make_cuda_kernel(text, row_scale_manifest(), kernel->options());
  DeviceCase call(0, RowScaleCase(1, 4, 1));
  for (int i = 0; i < 3; ++i) try {
      faulty->launch(call.tensors(), call.data.problem);
      call.total.download(call.data.total.data(), call.total.bytes());
      ADD_FAILURE() << "call " << i << " reports success";
    } catch (const DeviceLost& error) {
      EXPECT_THAT(error.what(), HasSubstr("context of this process is lost"));
      EXPECT_THAT(error.what(), HasSubstr(i ? "An earlier fault" : "A kernel faulted"));
    }
}

// T112
TEST_P(OnDevice, AFaultIsReportedAsLostContextFromThenOn) {
  const ProcessResult result = run_process({"/proc/self/exe", "--gtest_also_run_disabled_tests",
                                            "--gtest_filter=*DISABLED_Fault/" + std::string(name_of(GetParam()))});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("[  PASSED  ] 1 test."));
}
