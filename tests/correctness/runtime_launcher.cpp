// SPDX-License-Identifier: Apache-2.0
#include "runtime/launcher_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cache.h"
#include "runtime/compilers.h"
#include "runtime/doctor.h"
#include "runtime/process.h"
#include "tests/common/manifests.h"
#include "tests/common/scratch.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;
using ::testing::HasSubstr;

namespace {

ProcessResult compile_program(const std::string& header, const std::string& body) {
  const Scratch place = scratch();
  spill(place.path() / "launcher.h", header);
  spill(place.path() / "program.cpp", "#include \"launcher.h\"\n#include \"launcher.h\"\n" + body);
  const std::string include = Cache::shared().unpack(runtime_headers()).string();
  return run_process({find_compiler(CompilerChoice::host).path.string(), "-std=c++17", "-Wall", "-Wextra", "-Werror",
                      "-fsyntax-only", "-I", include, "program.cpp"},
                     {place.path(), {}});
}

}  // namespace

TEST(LauncherHeader, CompilesAndHasAFieldForEachTensor) {
  const std::string header = launcher_header(sample_manifest());
  EXPECT_THAT(header, HasSubstr("/// in, input bf16 [B,T,H,D]\n  View<KDAGEN_BF16, 4> x;"));
  EXPECT_THAT(header, HasSubstr("/// in, cotangent f32 [tiles,H,D], handed over as cotangent / ln2"));
  EXPECT_EQ(header, launcher_header(sample_manifest()));
  const ProcessResult result = compile_program(header, R"(
int main() {
  using namespace kdagen::launcher;
  Kernel kernel("norm_bwd.cu", "norm_bwd.json");
  NormBwd call;
  call.x = {nullptr, {2, 33, 3, NormBwd::dim}};
  call.dx = {nullptr, {2, 3, 33, 128}, {1, 2, 3, 1}};
  kdagen_problem problem{2, 33, 3, 2, nullptr, KDAGEN_FIXED_LENGTH};
  call.launch(kernel, problem, {0, nullptr});
})");
  EXPECT_EQ(result.exit_code, 0) << result.output << header;
}

TEST(LauncherHeader, NamesThatCppCannotUse) {
  Manifest manifest = sample_manifest();
  const char* names[] = {"double", "launch", "a-b", "a_b", "3rd", "__x", "_Y\\"};
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    for (ArgumentInfo& argument : manifest.arguments)
      if (argument.tensor == manifest.tensors[i].name) argument.tensor = names[i];
    manifest.tensors[i].name = names[i];
  }
  manifest.tensors[0].unit = "one\ntwo \\";
  manifest.kernel = "3 \"odd\" names\\";
  const ProcessResult result = compile_program(launcher_header(manifest), "int main() {}");
  EXPECT_EQ(result.exit_code, 0) << result.output << launcher_header(manifest);
}

TEST(Doctor, NamesEveryPartAndHowToGetWhatIsMissing) {
  WithVariable set("KDAGEN_NVCC", "/no/such/nvcc");
  const std::vector<DoctorCheck> checks = examine_machine();
  std::vector<std::string> names;
  for (const DoctorCheck& check : checks) {
    names.push_back(check.name);
    EXPECT_FALSE(check.found.empty());
    EXPECT_EQ(check.ok, check.how_to_get.empty()) << check.name;
  }
  EXPECT_THAT(names, ::testing::ElementsAre("host compiler", "nvcc", "nvrtc", "driver", "device", "cache"));
  EXPECT_FALSE(checks[1].ok);
  EXPECT_THAT(checks[1].found, HasSubstr("/no/such/nvcc"));
}
