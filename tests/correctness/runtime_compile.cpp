// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/process.h"
#include "tests/common/row_scale.h"
#include "tests/common/scratch.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;
using ::testing::HasSubstr;

namespace {

class Compile : public ::testing::TestWithParam<CompilerChoice> {
 protected:
  void SetUp() override {
    try {
      find_compiler(GetParam());
    } catch (const kdagen::ToolchainError& error) {
      GTEST_SKIP() << error.what();
    }
    options.compiler = GetParam();
    options.kernel = "row_scale";
    WithVariable named("KDAGEN_CACHE_DIR", place.path().string());
    cache = std::make_unique<Cache>(choose_cache_directory());
  }

  Scratch place = scratch();
  CompileOptions options;
  std::unique_ptr<Cache> cache;
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Compilers, Compile, ::testing::Values(CompilerChoice::nvrtc, CompilerChoice::nvcc),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(Compile, CubinWithAResourceReportAndAHitAfterwards) {
  const CompiledText text = compile(row_scale_text, "sm_90", options, *cache);
  EXPECT_TRUE(text.built);
  EXPECT_FALSE(text.is_ptx);
  EXPECT_EQ(text.image.substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_EQ(text.target, "sm_90");
  EXPECT_THAT(text.compiler, HasSubstr(std::string(name_of(GetParam()))));
  ASSERT_EQ(text.resources.size(), 9u);
  bool found = false;
  for (const EntryResources& entry : text.resources) {
    EXPECT_GT(entry.registers, 0);
    EXPECT_EQ(entry.spill_store_bytes, 0);
    EXPECT_EQ(entry.arch, "sm_90");
    if (entry.entry == "row_scale_fixed") {
      EXPECT_EQ(entry.shared_bytes, 4 * 8 * 4);
      found = true;
    }
  }
  EXPECT_TRUE(found);
  const CompiledText again = compile(row_scale_text, "sm_90", options, *cache);
  EXPECT_FALSE(again.built);
  EXPECT_EQ(again.image, text.image);
  EXPECT_EQ(again.resources.size(), 9u);
  // Nothing but the entry and the headers stays, and no path of this machine is in the object.
  EXPECT_EQ(text.image.find(place.path().string()), std::string::npos);
}

// T107
TEST_P(Compile, PtxForADeviceThatIsNewerThanTheCompiler) {
  options.newer_device = true;
  const CompiledText text = compile(row_scale_text, "sm_990", options, *cache);
  EXPECT_TRUE(text.is_ptx);
  EXPECT_THAT(text.image, HasSubstr(".version"));
  EXPECT_THAT(text.image, HasSubstr("row_scale_fixed"));
  EXPECT_THAT(text.target, HasSubstr("compute_"));
}

TEST_P(Compile, NoContractionOfMultiplyAndAdd) {
  const std::string text = "extern \"C\" __global__ void f(float* a) { a[0] = a[1] * a[2] + a[3]; }";
  options.want_ptx = true;
  const CompiledText compiled = compile(text, "sm_80", options, *cache);
  EXPECT_EQ(compiled.image.find("fma"), std::string::npos) << compiled.image;
  EXPECT_THAT(compiled.image, HasSubstr("mul.rn.f32"));
}

// T111
TEST_P(Compile, RefusedTextShowsTheCompilersWordsEachTime) {
  for (int i = 0; i < 2; ++i) try {
      compile("extern \"C\" __global__ void f() { no_such_function(); }", "sm_90", options, *cache);
      FAIL();
    } catch (const CompileError& error) {
      EXPECT_THAT(error.what(), HasSubstr("no_such_function"));
      EXPECT_THAT(error.what(), HasSubstr("row_scale"));
      EXPECT_EQ(error.exit_code(), 3);
    }
  EXPECT_TRUE(cache->list().empty());
}

// T107
TEST_P(Compile, ArchitecturesByBlame) {
  EXPECT_THROW(compile(row_scale_text, "sm_60", options, *cache), kdagen::UsageError);
  EXPECT_THROW(compile(row_scale_text, "banana", options, *cache), kdagen::UsageError);
  EXPECT_THROW(compile(row_scale_text, "sm_", options, *cache), kdagen::UsageError);
  try {
    compile(row_scale_text, "sm_990", options, *cache);
    FAIL();
  } catch (const kdagen::ToolchainError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sm_990"));
    EXPECT_THAT(error.what(), HasSubstr("sm_90"));
    EXPECT_THAT(error.what(), HasSubstr(find_compiler(GetParam()).version));
  }
}

// T072 T073 T075
TEST(CompileKey, DependsOnTextOptionsArchAndCompiler) {
  try {
    find_compiler(CompilerChoice::nvrtc);
    find_compiler(CompilerChoice::nvcc);
  } catch (const kdagen::ToolchainError& error) {
    GTEST_SKIP() << error.what();
  }
  CompileOptions options;
  std::set<std::string> digests{compile_key("a", "sm_90", options).digest(),
                                compile_key("b", "sm_90", options).digest(),
                                compile_key("a", "sm_80", options).digest()};
  CompileOptions other = options;
  other.compiler = CompilerChoice::nvcc;
  digests.insert(compile_key("a", "sm_90", other).digest());
  other = options;
  other.standard = 20;
  digests.insert(compile_key("a", "sm_90", other).digest());
  other = options;
  other.extra = {"--maxrregcount=64"};
  digests.insert(compile_key("a", "sm_90", other).digest());
  other = options;
  other.want_ptx = true;
  digests.insert(compile_key("a", "sm_90", other).digest());
  EXPECT_EQ(digests.size(), 7u);
  EXPECT_EQ(compile_key("a", "sm_90", options).digest(), compile_key("a", "sm_90", options).digest());
}

// nvcc reads options from the environment; they must not slip past the key.
// T077
TEST(CompileKey, OptionsFromTheEnvironmentHaveNoEffect) {
  try {
    find_compiler(CompilerChoice::nvcc);
  } catch (const kdagen::ToolchainError& error) {
    GTEST_SKIP() << error.what();
  }
  const Scratch place = scratch();
  WithVariable named("KDAGEN_CACHE_DIR", place.path().string()), flags("NVCC_APPEND_FLAGS", "--no-such-option");
  Cache cache(choose_cache_directory());
  CompileOptions options;
  options.compiler = CompilerChoice::nvcc;
  EXPECT_NO_THROW(compile("extern \"C\" __global__ void f() {}", "sm_90", options, cache));
}

TEST(CompileHost, SharedObjectAndRefusal) {
  const CompiledText text = compile_host(row_scale_text, {});
  EXPECT_EQ(text.image.substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_EQ(text.target, "host");
  EXPECT_THROW(compile_host("int f() { return no_such_name; }", {}), CompileError);
}

// T107
TEST(Targets, FallBack) {
  const Compiler compiler{CompilerChoice::nvcc, "", "13.0", {75, 80, 86, 90, 100, 120}};
  EXPECT_EQ(choose_target(compiler, {90, "a"}, true).arch.sm(), "sm_90a");
  EXPECT_EQ(choose_target(compiler, {103, ""}, true).arch.number, 100);
  EXPECT_FALSE(choose_target(compiler, {103, ""}, true).ptx);  // a cubin runs on later minor numbers
  EXPECT_EQ(choose_target(compiler, {150, ""}, true).arch.number, 120);
  EXPECT_TRUE(choose_target(compiler, {150, ""}, true).ptx);
  EXPECT_THROW(choose_target(compiler, {150, ""}, false), kdagen::ToolchainError);
}

TEST(Resources, BothCompilersLines) {
  const std::vector<EntryResources> entries = parse_resources(
      "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'one' for 'sm_90'\n"
      "ptxas         .     48 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 62 registers, used 1 barriers, 48 bytes cumulative stack size, 35328 bytes smem, 400 bytes "
      "cmem[0]\n"
      "ptxas info    : Compiling entry function 'two' for 'sm_90'\n    0 bytes stack frame, 0 bytes spill stores, 0 "
      "bytes "
      "spill loads\nptxas info    : Used 8 registers, used 0 barriers\n");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].entry, "one");
  EXPECT_EQ(entries[0].registers, 62);
  EXPECT_EQ(entries[0].stack_bytes, 48);
  EXPECT_EQ(entries[0].spill_store_bytes, 4);
  EXPECT_EQ(entries[0].spill_load_bytes, 8);
  EXPECT_EQ(entries[0].shared_bytes, 35328);
  EXPECT_EQ(entries[1].registers, 8);
  EXPECT_EQ(entries[1].barriers, 0);
}

TEST(Compilers, MissingOnesSayWhatIsWrongAndHowToGetThem) {
  for (const auto& [choice, variable] : {std::pair(CompilerChoice::nvcc, "KDAGEN_NVCC"),
                                         {CompilerChoice::nvrtc, "KDAGEN_NVRTC"},
                                         {CompilerChoice::host, "KDAGEN_HOST_CXX"}}) {
    WithVariable set(variable, "/no/such/file");
    try {
      find_compiler(choice);
      ADD_FAILURE() << variable;
    } catch (const kdagen::ToolchainError& error) {
      EXPECT_THAT(error.what(), HasSubstr(variable));
      EXPECT_THAT(error.what(), HasSubstr("/no/such/file"));
    }
  }
}

// A compiler that reports another version has other entries.
// T075
TEST(Compilers, VersionIsPartOfTheKey) {
  const Scratch place = scratch();
  std::set<std::string> digests;
  for (const char* version : {"13.0.88", "13.1.5"}) {
    const std::filesystem::path fake = place.path() / version;
    spill(fake, std::string("#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'release 13, V") + version +
                    "'; else echo compute_80; echo compute_90; fi\n");
    ::chmod(fake.c_str(), 0700);
    WithVariable set("KDAGEN_NVCC", fake.string());
    CompileOptions options;
    options.compiler = CompilerChoice::nvcc;
    EXPECT_EQ(find_compiler(CompilerChoice::nvcc).version, version);
    EXPECT_EQ(find_compiler(CompilerChoice::nvcc).archs, (std::vector<int>{80, 90}));
    digests.insert(compile_key("a", "sm_90", options).digest());
  }
  EXPECT_EQ(digests.size(), 2u);
}
