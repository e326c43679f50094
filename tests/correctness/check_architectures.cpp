// SPDX-License-Identifier: Apache-2.0
// The texts of every shipped spec on every architecture that they are emitted for: the compiler takes them, and keeps
// their values in registers.
#include <gtest/gtest.h>
#include <kdagen/error.h>

#include "codegen/backend.h"
#include "kdagen/registry.h"
#include "runtime/compile.h"
#include "tools/spec_source.h"

namespace kdagen {
namespace {

class EveryArchitecture : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      runtime::find_compiler(runtime::CompilerChoice::nvrtc);
    } catch (const ToolchainError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

/// The most bytes that an entry of the text moves between registers and memory for want of registers.
int most_spilled(const std::string& spec, Direction direction, const std::string& arch) {
  std::map<std::string, std::string> options;
  Compilation compilation(graph_bytes(spec, options), direction, take_compile_options(options));
  runtime::CompileOptions compile_options;
  compile_options.compiler = runtime::CompilerChoice::nvrtc;
  compile_options.kernel = spec;
  const runtime::CompiledText compiled = runtime::compile(emit_kernel(compilation, arch).text, arch, compile_options);
  EXPECT_FALSE(compiled.resources.empty()) << spec << " " << arch;
  int most = 0;
  for (const runtime::EntryResources& entry : compiled.resources) most = std::max(most, entry.spilled_bytes());
  return most;
}

TEST_P(EveryArchitecture, TakesEveryShippedSpec) {
  // Where the threads copy, an address too many may be stored once and loaded once.
  const std::string arch = GetParam();
  const int allowed = arch == "sm_80" || arch == "sm_86" || arch == "sm_89" ? 8 : 0;
  for (const SpecInfo& spec : shipped_specs())
    for (const Direction direction : {Direction::fwd, Direction::bwd})
      EXPECT_LE(most_spilled(spec.name, direction, GetParam()), allowed) << spec.name << " " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Texts, EveryArchitecture,
                         ::testing::Values("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kdagen
