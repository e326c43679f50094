// SPDX-License-Identifier: Apache-2.0
// Output that finds no room, input that is larger than memory, and names of files that no shell would like.
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/run_case.h"

using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

namespace {

/// kdagen under a shell's redirections and limits; `outcome.out` is stderr here.
Outcome under(const std::string& before, const std::string& after, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{"/bin/sh", "-c", before + " exec \"$0\" \"$@\" " + after, KDAGEN_BINARY};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const kdagen::runtime::ProcessResult result = kdagen::runtime::run_process(argv);
  return {result.exit_code, result.output, ""};
}

const std::string odd_name = "a 'q' \"d\" \\ $(x) `y` ;\n\xc3\xbc";

}  // namespace

TEST(CliOutput, AFullDiskBehindStdout) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"list"},
                                                  {"list", "--json"},
                                                  {"emit", "rmsnorm"},
                                                  {"show", "rmsnorm"},
                                                  {"--help"},
                                                  {"emit", "--help"}}) {
    const Outcome outcome = under("", ">/dev/full", command);
    EXPECT_EQ(outcome.code, 2) << command[0];
    EXPECT_THAT(outcome.out, HasSubstr("cannot write to stdout: No space left on device")) << command[0];
  }
  EXPECT_EQ(under("", ">/dev/full", {"cache", "clear"}).code, 2);
}

// A file of more than the limit would end the process by a signal, in the middle of writing.
TEST(CliOutput, FilesLargerThanTheLimit) {
  const Scratch folder = scratch();
  const Outcome outcome = under("ulimit -f 1;", "", {"emit", "rmsnorm", "-o", folder.path().string()});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("rmsnorm_fwd.cu"), HasSubstr("File too large")));
  EXPECT_THAT(listing(folder.path()), IsEmpty());
}

TEST(CliOutput, ResultsLargerThanTheLimit) {
  const RunCase call("rmsnorm", {"dim=64", "chunk=8"}, {1, 40, 3});
  const std::string in = (call.folder() / "in.safetensors").string(),
                    out = (call.folder() / "out.safetensors").string();
  kdagen::runtime::write_safetensors(in, call.inputs("fwd"));
  const std::vector<std::string> command{"run",    "rmsnorm", "--pass",  "fwd",  "--on", "cpu",   "--set",
                                         "dim=64", "--set",   "chunk=8", "--in", in,     "--out", out};
  const Outcome outcome = under("ulimit -f 8;", "", command);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("out.safetensors"), HasSubstr("File too large")));
  for (const std::string& name : listing(call.folder()))
    EXPECT_THAT(name, AllOf(Not(HasSubstr("out")), Not(HasSubstr(".kdagen")))) << name;
  EXPECT_EQ(under("", "", command).code, 0);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !(defined(__has_feature) && defined(__clang__))  // their memory is 16 TiB of addresses
TEST(CliOutput, InputLargerThanMemory) {
  const Scratch folder = scratch();
  const std::string in = (folder.path() / "in.safetensors").string();
  spill(in, "x");
  if (::truncate(in.c_str(), off_t{100} << 30) != 0) GTEST_SKIP() << "no such files here";
  const Outcome outcome = under("ulimit -v 8000000;", "",
                                {"run", "rmsnorm", "--pass", "fwd", "--on", "cpu", "--in", in, "--out", in + ".out"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.out, HasSubstr("out of memory"));
}
#endif

TEST(CliOutput, NamesThatNoShellWouldLike) {
  const Scratch folder = scratch();
  const std::string spec = (folder.path() / (odd_name + ".cpp")).string(),
                    out = (folder.path() / (odd_name + " out")).string();
  spill(spec,
        "#include <kdagen/kdagen.h>\nusing namespace kdagen;\nstatic Spec twice(const Options& o) {\n  Spec "
        "s(\"twice\", \"one\\n#error two \\\\\", o);\n"
        "  Axis t = s.rows(\"t\"), h = s.heads(\"h\"), d = s.features(\"d\");\n  s.output(\"y\", 2.0 * s.input(\"x\", "
        "{t, h, d}));\n"
        "  return s;\n}\nKDAGEN_SPEC(twice, twice)\n");
  const Environment cache{{"KDAGEN_CACHE_DIR", (folder.path() / (odd_name + " cache")).string()}};
  EXPECT_EQ(kdagen::testing::kdagen({"emit", spec, "-o", out}, cache).code, 0);
  EXPECT_THAT(listing(out), ElementsAre("twice_bwd.cu", "twice_bwd.json", "twice_fwd.cu", "twice_fwd.json"));
  const Outcome checked =
      kdagen::testing::kdagen({"check", spec, "--pass", "fwd", "--on", "emulator", "--tokens", "5"}, cache);
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_FALSE(std::filesystem::exists("y"));
}
