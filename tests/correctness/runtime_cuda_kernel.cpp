// SPDX-License-Identifier: Apache-2.0
// The CUDA path against a stand-in for the driver: what is called, in which context, on which stream. Kernels do not
// run.
#include <dlfcn.h>

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "kdagen/runtime.h"
#include "runtime/benchmarking.h"
#include "runtime/kernel.h"
#include "tests/common/fake_cuda.h"
#include "tests/common/row_scale.h"
#include "tests/common/row_scale_on_device.h"
#include "tests/common/scratch.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

/// Runs `body` in a child whose driver is the fake; failures inside count.
void with_fake_driver(const std::function<void(FakeCuda& (*)())>& body) {
  EXPECT_EQ(in_child([&] {
              ::setenv("KDAGEN_LIBCUDA", KDAGEN_FAKE_CUDA, 1);
              body([]() -> FakeCuda& {
                static void* library = dlopen(KDAGEN_FAKE_CUDA, RTLD_NOW);
                return *reinterpret_cast<FakeCudaState>(dlsym(library, "kdagen_fake_cuda"))();
              });
              return ::testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}

std::unique_ptr<CudaKernel> kernel_for_tests() { return make_cuda_kernel(row_scale_text, row_scale_manifest()); }

std::string failure_of(const std::function<void()>& action) {
  try {
    action();
    return "";
  } catch (const kdagen::Error& error) {
    return error.what();
  }
}

class CudaKernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      find_compiler(CompilerChoice::nvrtc);
    } catch (const kdagen::ToolchainError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

}  // namespace

// T099 T100
TEST_F(CudaKernelTest, LaunchesInOrderOnTheStreamWithOneWorkspace) {
  with_fake_driver([](auto fake) {
    const auto kernel = kernel_for_tests();
    DeviceCase call(1, RowScaleCase(2, 9, 3));
    Stream stream(1);
    fake().word_count = argument_words(kernel->manifest());
    fake().parameter_bytes = 8 * fake().word_count;
    fake().calls.clear();
    LaunchOptions options;
    options.stream = stream.get();
    kernel->launch(call.tensors(), call.data.problem, options);
    ASSERT_EQ(fake().launches.size(), 2u);
    EXPECT_EQ(fake().launches[0].entry, "row_scale_fixed");
    EXPECT_EQ(fake().launches[0].grid[0], 2u * 3 * 3);
    EXPECT_EQ(fake().launches[0].block, 8u);
    EXPECT_EQ(fake().launches[1].entry, "finish");
    EXPECT_EQ(device_info(1).arch, "sm_90");  // the other one is sm_80
    EXPECT_EQ(device_info(1).multiprocessors, 101);
    for (const FakeLaunch& launch : fake().launches) {
      EXPECT_EQ(launch.device, 1);
      EXPECT_EQ(launch.stream, stream.get());
      EXPECT_EQ(launch.words[0], reinterpret_cast<std::uint64_t>(call.x.data()));
      EXPECT_EQ(launch.words[12], 0u);  // cu_seqlens
      EXPECT_EQ(launch.words[13], 9u);
    }
    EXPECT_THAT(fake().calls, ElementsAre("pool alloc on a stream", "pool free on a stream"));
    EXPECT_EQ(fake().contexts_on_stack, 0);
    EXPECT_EQ(fake().mistakes, 0);
    const auto reports = kernel->report(1);
    ASSERT_EQ(reports.size(), 9u);
    EXPECT_EQ(reports[0].attributes.registers, 40);
    EXPECT_GT(reports[0].resources.registers, 0);
    EXPECT_THAT(time_on_stream(1, stream.get(), 1, 2, [] {}), ElementsAre(1.5f, 1.5f));
  });
}

TEST_F(CudaKernelTest, PackedCallChecksWhereTheOffsetsAre) {
  with_fake_driver([](auto fake) {
    const auto kernel = kernel_for_tests();
    RowScaleCase host(1, 9, 1);
    host.pack({0, 4, 9}, OffsetType::i64);
    DeviceCase call(0, host);
    kernel->launch(call.tensors(), call.data.problem);
    ASSERT_EQ(fake().launches.size(), 3u);
    EXPECT_EQ(fake().launches[0].entry, "count_tiles_i64");
    EXPECT_EQ(fake().launches[1].entry, "row_scale_i64");
    call.data.problem.cu_seqlens = call.data.offsets64.data();
    EXPECT_THAT(failure_of([&] { kernel->launch(call.tensors(), call.data.problem); }),
                HasSubstr("cu_seqlens of row_scale is not in device memory"));
  });
}

// T097 T098
TEST_F(CudaKernelTest, OneLoadADeviceAndTheCallersContextStays) {
  with_fake_driver([](auto fake) {
    const auto kernel = kernel_for_tests();
    DeviceCase first(0, RowScaleCase(1, 4, 1)), second(1, RowScaleCase(1, 4, 1));
    reinterpret_cast<FakeCudaPush>(dlsym(dlopen(KDAGEN_FAKE_CUDA, RTLD_NOW), "kdagen_fake_push"))(0);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (DeviceCase* call : {&first, &second, &first, &second}) kernel->launch(call->tensors(), call->data.problem);
      });
    kernel->launch(second.tensors(), second.data.problem);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(fake().modules_loaded[0], 1);
    EXPECT_EQ(fake().modules_loaded[1], 1);
    EXPECT_EQ(fake().current_device, 0);
    EXPECT_EQ(fake().contexts_on_stack, 1);
    EXPECT_EQ(fake().mistakes, 0);
  });
}

// T097
TEST_F(CudaKernelTest, MemoryOfTheWrongKindIsRefused) {
  with_fake_driver([](auto fake) {
    const auto kernel = kernel_for_tests();
    DeviceCase call(0, RowScaleCase(1, 4, 1)), elsewhere(1, RowScaleCase(1, 4, 1));
    const auto failure_with = [&](auto change) {
      std::vector<TensorRef> tensors = call.tensors();
      change(tensors);
      return failure_of([&] { kernel->launch(tensors, call.data.problem); });
    };
    EXPECT_THAT(failure_with([&](auto& t) { t[1].data = call.data.weight.data(); }),
                HasSubstr("\"weight\" of row_scale is not in device memory"));
    EXPECT_THAT(failure_with([&](auto& t) { t[1].data = elsewhere.weight.data(); }),
                HasSubstr("on device 1; expected memory of device 0"));
    EXPECT_THAT(failure_with([&](auto& t) { t[1].device_ordinal = 1; }), HasSubstr("\"weight\""));
    EXPECT_THAT(failure_with([&](auto& t) { t = call.data.tensors(); }), HasSubstr("host memory"));
    EXPECT_THAT(failure_with([&](auto& t) {
                  for (TensorRef& tensor : t) tensor.device_ordinal = 7;
                }),
                HasSubstr("no device 7"));
    EXPECT_TRUE(fake().launches.empty());
  });
}

// T102
TEST_F(CudaKernelTest, FirstUseInsideACaptureAsksForAWarmUp) {
  with_fake_driver([](auto fake) {
    const auto kernel = kernel_for_tests();
    DeviceCase call(0, RowScaleCase(1, 4, 1));
    fake().capturing = true;
    EXPECT_THAT(failure_of([&] { kernel->launch(call.tensors(), call.data.problem); }), HasSubstr("warm_up"));
    EXPECT_EQ(fake().modules_loaded[0], 0);
    fake().capturing = false;
    kernel->warm_up(0);
    fake().capturing = true;
    kernel->launch(call.tensors(), call.data.problem);
    EXPECT_EQ(fake().launches.size(), 2u);
  });
}

// T043 T099
TEST_F(CudaKernelTest, NothingToLaunchZeroesOnTheStream) {
  with_fake_driver([](auto fake) {
    const auto kernel = kernel_for_tests();
    RowScaleCase host(1, 6, 2, 0, 4);
    host.pack({0}, OffsetType::i32);
    DeviceCase call(0, host);
    Stream stream(0);
    fake().calls.clear();
    LaunchOptions options;
    options.stream = stream.get();
    kernel->launch(call.tensors(), call.data.problem, options);
    EXPECT_TRUE(fake().launches.empty());
    EXPECT_THAT(fake().calls, ElementsAre("memset 2D on a stream", "memset on a stream"));
    call.expect_right();
  });
}

TEST_F(CudaKernelTest, WorkspaceOfTheCaller) {
  with_fake_driver([](auto fake) {
    const auto kernel = kernel_for_tests();
    DeviceCase call(0, RowScaleCase(1, 4, 1));
    const DeviceBuffer workspace(0, kernel->workspace_bytes(call.data.problem));
    fake().word_count = 12;
    fake().calls.clear();
    LaunchOptions options;
    options.workspace = {workspace.data(), workspace.bytes()};
    kernel->launch(call.tensors(), call.data.problem, options);
    EXPECT_TRUE(fake().calls.empty());
    EXPECT_EQ(fake().launches[0].words[11], reinterpret_cast<std::uint64_t>(workspace.data()) + 256);
    options.workspace.bytes -= 1;
    EXPECT_THAT(failure_of([&] { kernel->launch(call.tensors(), call.data.problem, options); }),
                HasSubstr("workspace"));
  });
}

// T095 T096
TEST_F(CudaKernelTest, FaultsNameTheirCause) {
  with_fake_driver([](auto fake) {
    DeviceCase call(0, RowScaleCase(1, 4, 1));
    const auto failure = [&](const Manifest& manifest) {
      const auto kernel = make_cuda_kernel(row_scale_text, manifest);
      return failure_of([&] { kernel->launch(call.tensors(), call.data.problem); });
    };
    Manifest manifest = row_scale_manifest();
    manifest.launches[5].entry = "no_such_entry";
    EXPECT_THAT(failure(manifest), HasSubstr("no entry \"no_such_entry\""));
    manifest = row_scale_manifest();
    manifest.launches[5].shared_bytes = 200000;
    EXPECT_THAT(failure(manifest), ::testing::AllOf(HasSubstr("200000"), HasSubstr("101376")));
    fake().max_threads = 16;  // count_tiles has blocks of 32
    EXPECT_THAT(failure(manifest), ::testing::AllOf(HasSubstr("32 threads"), HasSubstr("40 registers"),
                                                    ::testing::Not(HasSubstr("shared"))));
    fake().max_threads = 1024;
    manifest.launches[5].shared_bytes = 60000;
    fake().calls.clear();
    EXPECT_EQ(failure(manifest), "");
    EXPECT_THAT(fake().calls, ::testing::Contains("attribute 8 = 60000"));
    fake().parameter_bytes = 8;
    EXPECT_THAT(failure(row_scale_manifest()), HasSubstr("do not belong together"));
    fake().parameter_bytes = -1;
    manifest = row_scale_manifest();
    manifest.arch = "sm_90";
    EXPECT_THAT(failure(manifest), ::testing::AllOf(HasSubstr("emitted for sm_90"), HasSubstr("sm_80")));
    fake().next_load_result = 209;
    EXPECT_THAT(failure(row_scale_manifest()), HasSubstr("words of the driver"));
  });
}

// T112
TEST_F(CudaKernelTest, ALostContextIsReportedAsSuchEachTime) {
  with_fake_driver([](auto fake) {
    const auto kernel = kernel_for_tests();
    DeviceCase call(0, RowScaleCase(1, 4, 1));
    fake().next_launch_result = 700;
    for (int i = 0; i < 2; ++i) try {
        kernel->launch(call.tensors(), call.data.problem);
        FAIL();
      } catch (const DeviceLost& error) {
        EXPECT_THAT(error.what(), HasSubstr("the context of this process is lost"));
        EXPECT_THAT(error.what(), HasSubstr(i ? "An earlier fault" : "A kernel faulted"));
        EXPECT_EQ(error.exit_code(), 3);
      }
  });
}

// T106
TEST_F(CudaKernelTest, ForkedChildOfAUserOfTheDeviceIsToldSo) {
  with_fake_driver([](auto) {
    kernel_for_tests()->warm_up(0);
    EXPECT_EQ(in_child([] {
                const std::string failure = failure_of([] { device_info(0); });
                return failure.find("fork") != std::string::npos ? 0 : 1;
              }),
              0);
    EXPECT_EQ(device_info(0).arch, "sm_80");
  });
}

TEST_F(CudaKernelTest, BinariesMadeAheadOfTimeNeedNoCompiler) {
  with_fake_driver([](auto fake) {
    const std::string cubin = compile(row_scale_text, "sm_80", {}).image;
    WithVariable no_nvrtc("KDAGEN_NVRTC", "/no/such/file"), no_nvcc("KDAGEN_NVCC", "/no/such/file");
    const auto kernel = kernel_for_tests();
    EXPECT_THAT(failure_of([&] { kernel->warm_up(0); }), HasSubstr("/no/such/file"));
    EXPECT_THAT(failure_of([&] { kernel->add_binary({"sm_eighty", cubin}); }), HasSubstr("sm_eighty"));
    kernel->add_binary({"sm_80", cubin});
    kernel->warm_up(0);
    EXPECT_EQ(fake().modules_loaded[0], 1);
    // A cubin does not run on another major number.
    EXPECT_THAT(failure_of([&] { kernel->warm_up(1); }), HasSubstr("/no/such/file"));
  });
}

TEST_F(CudaKernelTest, ThroughTheCInterface) {
  with_fake_driver([](auto fake) {
    kdagen_kernel* kernel = nullptr;
    ASSERT_EQ(kdagen_load(row_scale_text.data(), static_cast<std::int64_t>(row_scale_text.size()),
                          row_scale_manifest_text.data(), static_cast<std::int64_t>(row_scale_manifest_text.size()),
                          KDAGEN_COMPILER_NVRTC, &kernel),
              KDAGEN_OK)
        << kdagen_last_error();
    DeviceCase call(0, RowScaleCase(2, 4, 1));
    std::vector<TensorRef> tensors = call.tensors();
    std::vector<kdagen_tensor> list;
    for (const TensorRef& t : tensors)
      list.push_back({t.name.c_str(), t.data, static_cast<kdagen_dtype>(t.dtype), t.device_ordinal,
                      static_cast<std::int32_t>(t.shape.size()), t.shape.begin(), t.strides.begin()});
    kdagen_problem problem{2, 4, 1, 0, nullptr, KDAGEN_FIXED_LENGTH};
    EXPECT_EQ(kdagen_launch(kernel, list.data(), 4, &problem, nullptr, nullptr, 0), KDAGEN_OK) << kdagen_last_error();
    EXPECT_EQ(fake().launches.size(), 2u);
    list[0].dtype = KDAGEN_FP16;
    EXPECT_EQ(kdagen_launch(kernel, list.data(), 4, &problem, nullptr, nullptr, 0), KDAGEN_USAGE);
    EXPECT_THAT(kdagen_last_error(), HasSubstr("\"x\""));
    kdagen_unload(kernel);
  });
}
