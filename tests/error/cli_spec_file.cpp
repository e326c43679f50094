// SPDX-License-Identifier: Apache-2.0
// A user's .cpp that is wrong: exit code 2 and the line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/kdagen_process.h"

using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

class CliSpecFile : public ::testing::Test {
 protected:
  /// A spec "bad" whose body stands on line 4.
  std::string write(const std::string& body) {
    const std::string path = (folder_.path() / "bad.cpp").string();
    spill(
        path,
        "#include <kdagen/kdagen.h>\nusing namespace kdagen;\nstatic Spec bad(const Options& o) { Spec s(\"bad\", \"\", o);\n" +
            body + "\nreturn s; }\nKDAGEN_SPEC(bad, bad)\n");
    return path;
  }
  std::string refused(const std::string& path) {
    const Outcome outcome = kdagen::testing::kdagen({"show", path, "--stage", "spec"});
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  }
  Scratch folder_ = scratch();
};

constexpr const char* axes = "Axis t = s.rows(\"t\"), h = s.heads(\"h\"), d = s.features(\"d\");";

}  // namespace

TEST_F(CliSpecFile, AxisMismatch) {
  const std::string path =
      write(std::string(axes) + "\nValue x = s.input(\"x\", {t, h});\ns.output(\"y\", sum(x, d));");
  EXPECT_THAT(refused(path), AllOf(HasSubstr("bad.cpp:6"), HasSubstr("d")));
}

TEST_F(CliSpecFile, CompileError) {
  const std::string path = write(std::string(axes) + "\nValue x = s.inptu(\"x\", {t, h, d});\ns.output(\"y\", x);");
  EXPECT_THAT(refused(path), AllOf(HasSubstr("bad.cpp:5"), HasSubstr("inptu")));
}

TEST_F(CliSpecFile, Missing) { EXPECT_THAT(refused((folder_.path() / "none.cpp").string()), HasSubstr("none.cpp")); }

TEST_F(CliSpecFile, NoHostCompiler) {
  const std::string path = write(std::string(axes) + "\nValue x = s.input(\"x\", {t, h, d});\ns.output(\"y\", x * 3);");
  const Outcome outcome = kdagen::testing::kdagen({"show", path}, {{"KDAGEN_HOST_CXX", "/nowhere/g++"}});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("/nowhere/g++"), HasSubstr("KDAGEN_HOST_CXX")));
}
