// SPDX-License-Identifier: Apache-2.0
// Machines without a driver or a device: a clear message and exit code 3. Each case in a child, since a process looks
// for the driver once.
#include "runtime/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/runtime.h"
#include "runtime/device.h"
#include "tests/common/row_scale.h"
#include "tests/common/scratch.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;
using ::testing::HasSubstr;

namespace {

/// 0 when device_info(0) is a ToolchainError whose message has `words`.
int expect_no_driver(const std::string& library, const std::string& words) {
  return in_child([&] {
    ::setenv("KDAGEN_LIBCUDA", library.c_str(), 1);
    try {
      device_info(0);
      return 1;
    } catch (const kdagen::ToolchainError& error) {
      if (std::string(error.what()).find(words) != std::string::npos && error.exit_code() == 3) return 0;
      std::fprintf(stderr, "%s\n", error.what());
      return 2;
    }
  });
}

}  // namespace

TEST(NoDriver, MissingLibraryIsNamed) {
  EXPECT_EQ(expect_no_driver("/no/such/libcuda.so", "/no/such/libcuda.so"), 0);
  EXPECT_EQ(expect_no_driver("/no/such/libcuda.so", "KDAGEN_LIBCUDA"), 0);
}

TEST(NoDriver, AnotherLibraryIsNotTakenForOne) { EXPECT_EQ(expect_no_driver("libm.so.6", "is no CUDA driver"), 0); }

TEST(NoDriver, TheToolkitsStubIsRecognised) {
  const char* stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (!std::filesystem::exists(stub)) GTEST_SKIP() << "no stub here";
  EXPECT_EQ(expect_no_driver(stub, "stub"), 0);
}

TEST(NoDriver, TheCInterfaceReportsIt) {
  EXPECT_EQ(in_child([] {
              ::setenv("KDAGEN_LIBCUDA", "/no/such/libcuda.so", 1);
              kdagen_kernel* kernel = nullptr;
              if (kdagen_load(row_scale_text.data(), static_cast<std::int64_t>(row_scale_text.size()),
                              row_scale_manifest_text.data(), static_cast<std::int64_t>(row_scale_manifest_text.size()),
                              KDAGEN_COMPILER_NVCC, &kernel) != KDAGEN_OK)
                return 1;
              if (kdagen_warm_up(kernel, 0) != KDAGEN_TOOLCHAIN) return 2;
              if (!std::string(kdagen_last_error()).ends_with("was tried)")) return 3;
              kdagen_problem problem{2, 5, 3, 2, nullptr, KDAGEN_FIXED_LENGTH};
              std::int64_t bytes = 0;  // sizes need no device
              if (kdagen_workspace_bytes(kernel, &problem, &bytes) != KDAGEN_OK || bytes != 256 + 512) return 4;
              problem.tokens = -1;
              if (kdagen_workspace_bytes(kernel, &problem, &bytes) != KDAGEN_USAGE) return 5;
              if (kdagen_launch(nullptr, nullptr, 0, nullptr, nullptr, nullptr, 0) != KDAGEN_USAGE) return 6;
              kdagen_unload(kernel);
              return kdagen_load("", 0, "{", 1, KDAGEN_COMPILER_NVCC, &kernel) == KDAGEN_USAGE ? 0 : 7;
            }),
            0);
}
