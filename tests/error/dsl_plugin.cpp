// SPDX-License-Identifier: Apache-2.0
// What a user sees of a spec file that does not compile, does not register, throws, or does not exist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kdagen/error.h"
#include "tools/spec_source.h"

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

class PluginErrors : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "dsl_errors.XXXXXX").string();
    ASSERT_TRUE(mkdtemp(name.data()));
    folder = name;
    setenv("KDAGEN_CACHE_DIR", (folder / "cache").c_str(), 1);
  }
  void TearDown() override {
    fs::remove_all(folder);
    unsetenv("KDAGEN_HOST_CXX");
  }
  std::string write(const std::string& body) const {
    std::ofstream(folder / "my spec.cpp") << "#include <kdagen/kdagen.h>\nusing namespace kdagen;\n" << body;
    return (folder / "my spec.cpp").string();
  }
  template <class Expected>
  std::string message(const std::string& spec, const std::map<std::string, std::string>& options = {}) const {
    try {
      kdagen::graph_bytes(spec, options);
      ADD_FAILURE() << "no error";
    } catch (const Expected& e) {
      return e.what();
    } catch (const std::exception& e) {
      ADD_FAILURE() << "another error: " << e.what();
    }
    return "";
  }
  fs::path folder;
};

}  // namespace

// T111
TEST_F(PluginErrors, CompileErrorsNameTheUsersLine) {
  const std::string path =
      write("static Spec f(const Options& o) {\n  return Specc(\"f\", \"\", o);\n}\nKDAGEN_SPEC(f, f)\n");
  EXPECT_THAT(message<kdagen::SpecError>(path), StartsWith(path + ":4:10: error: "));
}

TEST_F(PluginErrors, AMissingIncludeNamesTheUsersLine) {
  const std::string path = write("#include \"nowhere.h\"\n");
  EXPECT_THAT(message<kdagen::SpecError>(path),
              AllOf(StartsWith(path + ":3:10: fatal error: "), HasSubstr("nowhere.h")));
}

TEST_F(PluginErrors, WhatTheSpecFunctionDoes) {
  const std::string path = write(R"(#include <stdexcept>
static Spec f(const Options& o) {
  const std::string fault = o.choice("fault", "name", {"name", "throw", "line", "option"});
  if (fault == "throw") throw std::runtime_error("no luck");
  if (fault == "option") throw UsageError("option fault=option: pass another");
  if (fault == "name") return Spec("g", "", o);
  Spec s("f", "", o);
  Axis t = s.rows("t");
  s.output("y", index(t));
  return s;
}
KDAGEN_SPEC(f, f))");
  EXPECT_EQ(message<kdagen::SpecError>(path),
            path + ":1: error: KDAGEN_SPEC(f, ...) registers a spec that calls itself g; use one name");
  EXPECT_EQ(message<kdagen::SpecError>(path, {{"fault", "throw"}}),
            path + ":1: error: the spec function of f threw: no luck");
  EXPECT_EQ(message<kdagen::UsageError>(path, {{"fault", "option"}}), "option fault=option: pass another");
  EXPECT_THAT(message<kdagen::SpecError>(path, {{"fault", "line"}}),
              StartsWith(path + ":11: error: output y has the axes {t}"));
  EXPECT_THAT(message<kdagen::UsageError>(path, {{"fault", "nome"}}), HasSubstr("(did you mean name?)"));
  EXPECT_THAT(message<kdagen::UsageError>(path, {{"a\nb", "1"}}), HasSubstr("one line KEY=VALUE"));
}

// A spec is its user's code: whatever it does to its process, this one goes on, and does not take it for success.
TEST_F(PluginErrors, SpecsThatEndTheirProcess) {
  const std::string path = write(R"(#include <cstdlib>
static Spec f(const Options& o) {
  const std::string fault = o.choice("fault", "none", {"none", "abort", "address", "exit"});
  if (fault == "abort") std::abort();
  if (fault == "address") *reinterpret_cast<volatile int*>(8) = 1;
  if (fault == "exit") std::exit(0);
  Spec s("f", "", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  s.output("y", 2.0 * s.input("x", {t, h, d}));
  return s;
}
KDAGEN_SPEC(f, f))");
  EXPECT_EQ(message<kdagen::SpecError>(path, {{"fault", "abort"}}), path + ":1: error: the spec crashed: Aborted");
  EXPECT_EQ(message<kdagen::SpecError>(path, {{"fault", "address"}}),
            path + ":1: error: the spec crashed: Segmentation fault");
  EXPECT_EQ(message<kdagen::SpecError>(path, {{"fault", "exit"}}),
            path + ":1: error: the spec ended the process (exit code 0) before it handed over a graph");
  EXPECT_THAT(kdagen::graph_bytes(path, {}), HasSubstr("\"outputs\""));
  std::ofstream(folder / "loading.cpp") << "struct A { A() { __builtin_trap(); } } a;\n#include <kdagen/kdagen.h>\n";
  EXPECT_THAT(message<kdagen::SpecError>((folder / "loading.cpp").string()), HasSubstr("the spec crashed"));
}

// The compilation is cached, so that only the spec's own time is short.
TEST_F(PluginErrors, ASpecThatDoesNotEnd) {
  const std::string path = write(R"(static Spec f(const Options& o) {
  Spec s("f", "", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  for (volatile bool more = o.integer("fault", 0, 0, 1) > 0; more;) continue;
  s.output("y", 2.0 * s.input("x", {t, h, d}));
  return s;
}
KDAGEN_SPEC(f, f))");
  EXPECT_THAT(kdagen::graph_bytes(path, {}), HasSubstr("\"outputs\""));
  setenv("KDAGEN_TIME_LIMIT", "10", 1);
  EXPECT_EQ(message<kdagen::SpecError>(path, {{"fault", "1"}}),
            path +
                ":1: error: the spec did not end within 10 s, and was stopped; KDAGEN_TIME_LIMIT sets another limit "
                "in seconds");
  unsetenv("KDAGEN_TIME_LIMIT");
}

// What others could have written is not run as this user.
TEST_F(PluginErrors, SpecsAndHeadersThatAnybodyCouldWrite) {
  const std::string path = write("#include \"open/a \\ b.h\"\n");
  const fs::path open = folder / "open", header = open / "a \\ b.h";
  fs::create_directory(open);
  std::ofstream(header) << "// nothing\n";
  const auto with_modes = [&](mode_t folder_mode, mode_t file_mode, mode_t spec_mode) {
    chmod(open.c_str(), folder_mode);
    chmod(header.c_str(), file_mode);
    chmod(path.c_str(), spec_mode);
  };
  with_modes(0755, 0644, 0666);
  EXPECT_THAT(message<kdagen::UsageError>(path),
              AllOf(StartsWith(path + ":1: error: the spec is not compiled: everybody may write " + path),
                    HasSubstr("chmod o-w")));
  with_modes(0755, 0666, 0644);
  EXPECT_THAT(message<kdagen::UsageError>(path),
              AllOf(StartsWith(path + ":1: error: the header " + header.string() + " is not compiled: everybody may"),
                    HasSubstr("chmod o-w")));
  with_modes(0777, 0644, 0644);
  EXPECT_THAT(message<kdagen::UsageError>(path), HasSubstr("everybody may write " + open.string() + " (mode 777)"));
  with_modes(01777, 0644, 0644);  // as /tmp
  EXPECT_THAT(message<kdagen::SpecError>(path), HasSubstr("the file registers no spec"));
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(header.c_str(), 12345, 12345), 0);
  EXPECT_THAT(message<kdagen::UsageError>(path), HasSubstr(header.string() + " belongs to another user (id 12345)"));
}

TEST_F(PluginErrors, NoRegistration) {
  std::ofstream(folder / "nothing.cpp") << "int nothing;\n";
  const std::string path = (folder / "nothing.cpp").string();
  EXPECT_EQ(message<kdagen::SpecError>(path),
            path + ":1: error: the file registers no spec; end it with KDAGEN_SPEC(name, function)");
}

TEST_F(PluginErrors, NoSuchSpec) {
  const std::string name = kdagen::shipped_specs().front().name, misspelt = name + "x";
  EXPECT_THAT(message<kdagen::UsageError>(misspelt),
              StartsWith("there is no spec \"" + misspelt + "\" (did you mean " + name + "?); pass one of "));
  EXPECT_THAT(message<kdagen::UsageError>((folder / "none.cpp").string()),
              StartsWith("cannot read the spec " + folder.string()));
  EXPECT_THAT(message<kdagen::UsageError>(folder.string()), StartsWith("cannot read the spec " + folder.string()));
}

TEST_F(PluginErrors, NoHostCompiler) {
  setenv("KDAGEN_HOST_CXX", "/nowhere/compiler", 1);
  EXPECT_THAT(message<kdagen::ToolchainError>(write("")), HasSubstr("KDAGEN_HOST_CXX"));
}
