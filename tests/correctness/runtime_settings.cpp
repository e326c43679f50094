// SPDX-License-Identifier: Apache-2.0
// Compilers by the environment's variables, on one cache: T075, T077 of docs/traps.md. The stand-ins' objects are their
// names, arguments and environment.
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/compile.h"
#include "runtime/process.h"
#include "tests/common/scratch.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

namespace {

namespace fs = std::filesystem;

class Settings : public ::testing::Test {
 protected:
  Settings() {
    for (const char* name : {"first", "second", "toolkit/bin"}) {
      fs::create_directories(place.path() / name);
      stand_in(place.path() / name / "nvcc", name);
      stand_in(place.path() / name / "g++", name);
    }
  }
  static void stand_in(const fs::path& file, const std::string& name) {
    spill(file, "#!/bin/sh\ncase $1 in\n--version) echo '" + name +
                    " release 13.0, V13.0.88'; exit ;;\n--list-gpu-arch) echo compute_90; exit ;;\nesac\n"
                    "for word; do [ \"$last\" = -o ] && out=$word; last=$word; done\n"
                    "{ echo 'made by " +
                    name + "'; printf '%s\\n' \"$@\"; env; } | grep -v kdagen- > \"$out\"\n");
    ::chmod(file.c_str(), 0755);
  }
  CompiledText made(const std::string& text, CompilerChoice choice = CompilerChoice::nvcc) {
    CompileOptions options;
    options.kernel = "kernel";
    options.compiler = choice;
    return choice == CompilerChoice::host ? compile_host(text, options, *cache)
                                          : compile(text, "sm_90", options, *cache);
  }
  std::string in(const std::string& path) const { return (place.path() / path).string(); }

  Scratch place = scratch();
  WithVariable named{"KDAGEN_CACHE_DIR", (place.path() / "cache").string()};
  WithVariable no_nvcc{"KDAGEN_NVCC", std::nullopt}, no_host{"KDAGEN_HOST_CXX", std::nullopt},
      no_home{"CUDA_HOME", std::nullopt}, no_path{"CUDA_PATH", std::nullopt};
  std::unique_ptr<Cache> cache = std::make_unique<Cache>(choose_cache_directory());
};

/// Two NVRTCs of one version and size that differ in a number.
std::string nvrtc(const fs::path& file, int number, const std::string& build_id = "sha1") {
  const std::string source = file.string() + ".cpp";
  std::string text = "extern \"C\" {\nvolatile int number = " + std::to_string(number) +
                     ";\nint nvrtcVersion(int* a, int* b) { return *a = 13, *b = 0, 0; }\n"
                     "int nvrtcGetNumSupportedArchs(int* n) { return *n = 1, 0; }\n"
                     "int nvrtcGetSupportedArchs(int* n) { return *n = 90, 0; }\n";
  for (const char* name : {"CreateProgram", "DestroyProgram", "CompileProgram", "GetPTXSize", "GetPTX", "GetCUBINSize",
                           "GetCUBIN", "GetProgramLogSize", "GetProgramLog", "GetErrorString"})
    text += "int nvrtc" + std::string(name) + "() { return 1; }\n";
  spill(source, text + "}\n");
  const ProcessResult result = run_process({find_compiler(CompilerChoice::host).path.string(), "-shared", "-fPIC",
                                            "-Wl,--build-id=" + build_id, "-o", file.string(), source});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return file.string();
}

}  // namespace

TEST_F(Settings, T077VariablesThatChooseOffOnOff) {
  const std::string path = in("first") + ":/usr/bin:/bin";
  const WithVariable search("PATH", path);
  struct Choice {
    const char* variable;
    std::string value;
    CompilerChoice compiler;
    std::string maker;
  };
  const std::vector<Choice> choices{{"KDAGEN_NVCC", in("second/nvcc"), CompilerChoice::nvcc, "second"},
                                    {"KDAGEN_HOST_CXX", in("second/g++"), CompilerChoice::host, "second"},
                                    {"PATH", in("second") + ":" + path, CompilerChoice::nvcc, "second"},
                                    {"PATH", in("second") + ":" + path, CompilerChoice::host, "second"}};
  for (const Choice& choice : choices) {
    const std::string text = "// " + std::string(choice.variable) + choice.value + "\n";
    const CompiledText off = made(text, choice.compiler);
    EXPECT_TRUE(off.built);
    EXPECT_THAT(off.image, StartsWith("made by first\n")) << choice.variable;
    {
      const WithVariable on(choice.variable, choice.value);
      // nvcc's version is the same, and so is what it makes; another g++ has another name in its version.
      const bool other_key = choice.compiler == CompilerChoice::host;
      EXPECT_EQ(find_compiler(choice.compiler).path.parent_path().filename(), choice.maker) << choice.variable;
      EXPECT_THAT(made(text, choice.compiler).image, StartsWith(other_key ? "made by second\n" : "made by first\n"));
      EXPECT_THAT(made(text + "// cold\n", choice.compiler).image, StartsWith("made by second\n")) << choice.variable;
    }
    const CompiledText again = made(text, choice.compiler);
    EXPECT_FALSE(again.built) << choice.variable;
    EXPECT_EQ(again.image, off.image) << choice.variable;
    EXPECT_EQ(find_compiler(choice.compiler).path.parent_path().filename(), "first");
  }
}

TEST_F(Settings, T077ToolkitFoldersOffOnOff) {
  const WithVariable search("PATH", "/usr/bin:/bin");
  const auto found = [] {
    try {
      return find_compiler(CompilerChoice::nvcc).path.string();
    } catch (const kdagen::ToolchainError&) {
      return std::string("none");
    }
  };
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string off = found();
    {
      const WithVariable on(variable, in("toolkit"));
      EXPECT_EQ(found(), in("toolkit/bin/nvcc"));
      EXPECT_THAT(made("// " + std::string(variable)).image, StartsWith("made by toolkit/bin\n"));
    }
    EXPECT_EQ(found(), off) << variable;
  }
}

// By these compilers take options and files past the key: they reach none.
TEST_F(Settings, T077VariablesWithoutEffectOffOnOff) {
  const WithVariable search("PATH", in("first") + ":/usr/bin:/bin");
  for (const char* variable : {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH", "C_INCLUDE_PATH",
                               "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "LIBRARY_PATH", "LD_RUN_PATH",
                               "CCC_OVERRIDE_OPTIONS", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES"})
    for (const CompilerChoice choice : {CompilerChoice::nvcc, CompilerChoice::host}) {
      const std::string warm = "// warm " + std::string(variable), cold = "// cold " + std::string(variable);
      const CompiledText off = made(warm, choice);
      CompiledText on;
      {
        const WithVariable set(variable, "/a-mark");
        EXPECT_EQ(made(warm, choice).image, off.image) << variable;
        on = made(cold, choice);
      }
      EXPECT_TRUE(on.built) << variable;
      EXPECT_THAT(on.image, Not(HasSubstr("a-mark"))) << variable;
      EXPECT_FALSE(made(cold, choice).built) << variable;
      EXPECT_EQ(on.image, off.image) << variable;
    }
}

TEST_F(Settings, T077NvrtcOffOnOff) {
  const auto label = [] { return find_compiler(CompilerChoice::nvrtc).label(); };
  const WithVariable first("KDAGEN_NVRTC", nvrtc(place.path() / "libnvrtc-1.so", 1));
  const std::string off = label();
  {
    const WithVariable on("KDAGEN_NVRTC", "/nowhere/libnvrtc.so.13");
    EXPECT_THROW(label(), kdagen::ToolchainError);
  }
  EXPECT_EQ(label(), off);
}

// Builds of one version are told apart by what is in them.
class Builds : public Settings, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(BuildIds, Builds, ::testing::Values("sha1", "none"));

TEST_P(Builds, T075AnotherBuildOfNvrtcHasEntriesOfItsOwn) {
  std::set<std::string> labels, digests;
  std::set<std::uintmax_t> sizes;
  for (const int number : {1, 2}) {
    const std::string file = nvrtc(place.path() / ("libnvrtc-" + std::to_string(number) + ".so"), number, GetParam());
    sizes.insert(fs::file_size(file));
    const WithVariable set("KDAGEN_NVRTC", file);
    const Compiler compiler = find_compiler(CompilerChoice::nvrtc);
    EXPECT_EQ(compiler.path, file);
    EXPECT_THAT(compiler.label(), StartsWith("nvrtc 13.0 (build "));
    labels.insert(compiler.label());
    digests.insert(compile_key("a", "sm_90", {}).digest());
    fs::copy_file(file, file + ".copy");
    const WithVariable copy("KDAGEN_NVRTC", file + ".copy");
    EXPECT_EQ(find_compiler(CompilerChoice::nvrtc).label(), compiler.label());  // wherever it lies
  }
  EXPECT_EQ(sizes.size(), 1u);
  EXPECT_EQ(labels.size(), 2u);
  EXPECT_EQ(digests.size(), 2u);
}
