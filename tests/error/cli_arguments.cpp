// SPDX-License-Identifier: Apache-2.0
// Arguments and options that do not pass: exit code 2, one message on stderr, nothing on stdout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/kdagen_process.h"

using kdagen::testing::Outcome;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

namespace {

std::string refused(const Arguments& arguments) {
  const Outcome outcome = kdagen::testing::kdagen(arguments);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  return outcome.err;
}

}  // namespace

TEST(CliArguments, UnknownSpec) {
  EXPECT_THAT(refused({"show", "rmsnrm"}),
              AllOf(HasSubstr("rmsnrm"), HasSubstr("did you mean rmsnorm?"), HasSubstr("l2norm")));
}

TEST(CliArguments, UnknownOption) {
  EXPECT_THAT(refused({"emit", "rmsnorm", "--set", "chnk=16"}),
              AllOf(HasSubstr("chnk"), HasSubstr("did you mean chunk?")));
  EXPECT_THAT(refused({"explain", "rmsnorm", "--set", "upstream.z=bf16"}),
              AllOf(HasSubstr("upstream.z"), HasSubstr("y")));
}

TEST(CliArguments, ValueOutOfRange) {
  EXPECT_THAT(refused({"emit", "rmsnorm", "--set", "eps=-1"}), AllOf(HasSubstr("eps=-1"), HasSubstr("from 0 to 1")));
  EXPECT_THAT(refused({"ranges", "rmsnorm", "--set", "chunk=20"}),
              AllOf(HasSubstr("chunk=20"), HasSubstr("multiple of 8")));
  EXPECT_THAT(refused({"show", "rmsnorm", "--set", "eps=nan"}), HasSubstr("eps=nan"));
#ifdef KDAGEN_HAS_KDA_K1
  EXPECT_THAT(refused({"show", "kda_k1", "--set", "gt=k3"}), AllOf(HasSubstr("gt=k3"), HasSubstr("k2, pure")));
#endif
  EXPECT_THAT(refused({"emit", "rmsnorm", "--set", "layout=thd"}),
              AllOf(HasSubstr("layout=thd"), HasSubstr("bthd, htd")));
}

TEST(CliArguments, SetSyntax) {
  EXPECT_THAT(refused({"show", "rmsnorm", "--set", "chunk"}), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(refused({"show", "rmsnorm", "--set", "chunk=16", "--set", "chunk=32"}), HasSubstr("twice"));
}

TEST(CliArguments, CommandLineSyntax) {
  refused({});
  refused({"sow", "rmsnorm"});
  refused({"show"});
  refused({"show", "rmsnorm", "--stage", "cubin"});
  refused({"show", "rmsnorm", "--pass", "both"});
  refused({"check", "rmsnorm", "--on", "gpu"});
  refused({"run", "rmsnorm", "--pass", "fwd", "--on", "cpu", "--in", "x"});
  refused({"bench", "rmsnorm"});
  refused({"check", "rmsnorm", "--tokens", "8", "--seqlens", "4,4"});
}

TEST(CliArguments, CallersMemory) {
  const auto refuses = [](Arguments more, const std::string& what) {
    Arguments arguments{"check", "rmsnorm"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_THAT(refused(arguments), HasSubstr(what));
  };
  refuses({"--on", "emulator", "--cu-seqlens", "i16"}, "i64");
  refuses({"--on", "emulator", "--cu-seqlens", "i64", "--tokens", "8"}, "--seqlens");
  refuses({"--on", "emulator", "--base-offset", "3"}, "--base-offset 3: pass an even number from 0 to 254");
  refuses({"--on", "emulator", "--base-offset", "-2"}, "--base-offset -2");
  refuses({"--on", "emulator", "--base-offset", "256"}, "--base-offset 256");
  refuses({"--cu-seqlens", "i64"}, "--cu-seqlens: goes with --on emulator or cuda");
  refuses({"--base-offset", "2"}, "--base-offset: goes with --on emulator or cuda");
  refuses({"--strides", "2"}, "--strides: goes with --on emulator or cuda");
  refuses({"--on", "emulator", "--strides", "-2"}, "--strides");
}

TEST(CliArguments, UnknownRegime) {
  EXPECT_THAT(refused({"check", "rmsnorm", "--regime", "nromal"}), AllOf(HasSubstr("nromal"), HasSubstr("normal")));
}

TEST(CliArguments, HelpAndVersionAreNoErrors) {
  EXPECT_EQ(kdagen::testing::kdagen({"--help"}).code, 0);
  EXPECT_EQ(kdagen::testing::kdagen({"run", "--help"}).code, 0);
  EXPECT_THAT(kdagen::testing::kdagen({"--version"}).out, HasSubstr("kdagen "));
}
