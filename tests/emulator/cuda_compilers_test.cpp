// SPDX-License-Identifier: Apache-2.0
// The texts that the other tests emulate are CUDA: NVRTC and nvcc take them for old and new devices, from the prelude
// alone and without a warning. Skipped where there is no CUDA compiler.
#include <gtest/gtest.h>

#include "runtime/compile.h"
#include "runtime/files.h"
#include "support.h"

namespace kdagen::emulator::testing {
namespace {

using runtime::CompilerChoice;

struct Case {
  CompilerChoice compiler;
  const char* arch;
  int standard;
};

/// The texts, the sample without its faulty entries.
std::string text_of(const std::string& file) {
  const std::string text = kernel_text(file), last = "ENTRY(none)\n";
  const std::size_t end = text.find(last);
  return end == std::string::npos ? text : text.substr(0, end + last.size());
}

class CudaCompilers : public ::testing::TestWithParam<Case> {};

TEST_P(CudaCompilers, TakeTheText) {
  const Case& parameters = GetParam();
  try {
    runtime::find_compiler(parameters.compiler);
  } catch (const ToolchainError& error) {
    GTEST_SKIP() << error.what();
  }
  for (const char* file : {"sample.cu", "prelude.cu"}) {
    runtime::CompileOptions options;
    options.compiler = parameters.compiler;
    options.standard = parameters.standard;
    options.kernel = file;
    const runtime::CompiledText compiled = runtime::compile(text_of(file), parameters.arch, options);
    EXPECT_FALSE(compiled.image.empty());
    EXPECT_EQ(compiled.log.find("warning"), std::string::npos) << compiled.log;
    for (const runtime::EntryResources& entry : compiled.resources)
      EXPECT_EQ(entry.spill_store_bytes, 0) << entry.entry;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Compilers, CudaCompilers,
    ::testing::Values(Case{CompilerChoice::nvrtc, "sm_80", 17}, Case{CompilerChoice::nvrtc, "sm_90", 20},
                      Case{CompilerChoice::nvrtc, "sm_120", 17}, Case{CompilerChoice::nvcc, "sm_90", 17}),
    [](const auto& info) { return std::string(runtime::name_of(info.param.compiler)) + "_" + info.param.arch; });

}  // namespace
}  // namespace kdagen::emulator::testing
