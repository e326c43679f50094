// SPDX-License-Identifier: Apache-2.0
// What is missing on the machine: exit code 3, saying what and how to get it; an architecture that no text can target
// is the caller's mistake: 2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/common/kdagen_process.h"

using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

namespace {

const Environment no_driver{{"KDAGEN_LIBCUDA", "/nowhere/libcuda.so"}};
const Environment no_cuda_compiler{{"KDAGEN_NVCC", "/nowhere/nvcc"}, {"KDAGEN_NVRTC", "/nowhere/libnvrtc.so"}};

std::string missing(const std::vector<std::string>& arguments, const Environment& environment) {
  const Outcome outcome = kdagen::testing::kdagen(arguments, environment);
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  return outcome.err;
}

/// Answers nvcc's questions for a compiler that knows sm_90 only.
std::string old_nvcc(const std::filesystem::path& folder) {
  const std::string path = (folder / "nvcc").string();
  spill(path,
        "#!/bin/sh\ncase $1 in\n--version) echo 'Cuda compilation tools, release 12.0, V12.0.140' ;;\n"
        "--list-gpu-arch) echo compute_90 ;;\n*) exit 1 ;;\nesac\n");
  ::chmod(path.c_str(), 0755);
  return path;
}

}  // namespace

TEST(CliToolchain, NoDriver) {
  EXPECT_THAT(missing({"check", "rmsnorm", "--on", "cuda"}, no_driver), HasSubstr("/nowhere/libcuda.so"));
  EXPECT_THAT(missing({"bench", "rmsnorm", "--on", "cuda", "--json"}, no_driver), HasSubstr("/nowhere/libcuda.so"));
}

TEST(CliToolchain, NoCudaCompiler) {
  for (const char* stage : {"ptx", "sass"})
    EXPECT_THAT(missing({"show", "rmsnorm", "--stage", stage}, no_cuda_compiler),
                AllOf(HasSubstr("/nowhere/nvcc"), HasSubstr("/nowhere/libnvrtc.so")));
}

TEST(CliToolchain, TextNeedsNoCompiler) {
  Environment nothing = no_cuda_compiler;
  nothing["KDAGEN_HOST_CXX"] = "/nowhere/g++";
  const Outcome outcome = kdagen::testing::kdagen({"emit", "rmsnorm"}, nothing);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("rmsnorm_bwd"));
}

TEST(CliToolchain, NoHostCompilerForTheEmulator) {
  EXPECT_THAT(missing({"check", "rmsnorm", "--on", "emulator"}, {{"KDAGEN_HOST_CXX", "/nowhere/g++"}}),
              HasSubstr("/nowhere/g++"));
}

TEST(CliToolchain, ArchitecturesThatNoTextCanTarget) {
  for (const char* arch : {"sm_70", "sm_9", "90", "gfx942"})
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"emit", "rmsnorm"}, {"show", "rmsnorm", "--stage", "ptx"}}) {
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.end(), {"--arch", arch});
      const Outcome outcome = kdagen::testing::kdagen(arguments);
      EXPECT_EQ(outcome.code, 2) << arch;
      EXPECT_EQ(outcome.out, "") << arch;
      EXPECT_THAT(outcome.err, AllOf(HasSubstr(arch), HasSubstr("90"))) << arch;
    }
}

TEST(CliToolchain, ArchitectureThatTheCompilerLacks) {
  const Scratch folder = scratch();
  const Environment environment{{"KDAGEN_NVCC", old_nvcc(folder.path())}, {"KDAGEN_NVRTC", "/nowhere/libnvrtc.so"}};
  EXPECT_THAT(missing({"show", "rmsnorm", "--stage", "ptx", "--arch", "sm_100"}, environment),
              AllOf(HasSubstr("nvcc 12.0.140"), HasSubstr("sm_100"), HasSubstr("sm_90")));
}

TEST(CliToolchain, CacheThatCannotBeWritten) {
  const Scratch folder = scratch();
  spill(folder.path() / "file", "");
  const Outcome outcome =
      kdagen::testing::kdagen({"check", "rmsnorm", "--pass", "fwd", "--on", "emulator", "--tokens", "8"},
                              {{"KDAGEN_CACHE_DIR", (folder.path() / "file" / "cache").string()}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const size_t first = outcome.err.find("file/cache");
  EXPECT_NE(first, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << "one warning only:\n" << outcome.err;
}

TEST(CliToolchain, DoctorAlwaysLooks) {
  Environment nothing = no_cuda_compiler;
  nothing.insert(no_driver.begin(), no_driver.end());
  const Outcome outcome = kdagen::testing::kdagen({"doctor", "--json"}, nothing);
  EXPECT_EQ(outcome.code, 0);
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["ok"], false);
  int failed = 0;
  for (const auto& check : report["checks"]) {
    EXPECT_TRUE(check["name"].is_string() && check["found"].is_string());
    EXPECT_EQ(check["ok"].get<bool>(), check["how_to_get"] == "") << check;
    failed += !check["ok"].get<bool>();
  }
  EXPECT_GE(failed, 4);  // nvcc, NVRTC, driver, device
}
