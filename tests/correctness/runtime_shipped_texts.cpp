// SPDX-License-Identifier: Apache-2.0
// The checked-in kernels as the compiler sees them.
#include <gtest/gtest.h>

#include <filesystem>

#include "kdagen/error.h"
#include "runtime/compile.h"
#include "runtime/files.h"

using namespace kdagen::runtime;

TEST(ShippedTexts, NothingSpills) {
  CompileOptions options;
  options.compiler = CompilerChoice::nvrtc;
  try {
    find_compiler(options.compiler);
  } catch (const kdagen::ToolchainError& error) {
    GTEST_SKIP() << error.what();
  }
  int texts = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(KDAGEN_GENERATED)) {
    if (file.path().extension() != ".cu") continue;
    ++texts;
    const std::string arch = file.path().parent_path().filename().string();
    options.kernel = file.path().stem().string();
    std::string error;
    const CompiledText compiled = compile(read_file(file.path(), error).value(), arch, options);
    EXPECT_FALSE(compiled.resources.empty()) << options.kernel;
    for (const EntryResources& entry : compiled.resources) {
      EXPECT_EQ(entry.spilled_bytes(), 0) << entry.entry;
      if (arch == "sm_90") {
        EXPECT_LE(entry.registers, 128) << entry.entry;
      }
    }
  }
  EXPECT_GT(texts, 0);
}
