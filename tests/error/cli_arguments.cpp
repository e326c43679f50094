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
  EXPECT_THAT(refused({"show", "kda_k2"}), AllOf(HasSubstr("kda_k2"), HasSubstr("did you mean kda_k1?"), HasSubstr("rmsnorm")));
}

TEST(CliArguments, UnknownOption) {
  EXPECT_THAT(refused({"emit", "kda_k1", "--set", "chnk=16"}), AllOf(HasSubstr("chnk"), HasSubstr("did you mean chunk?")));
  EXPECT_THAT(refused({"explain", "rmsnorm", "--set", "upstream.z=bf16"}), AllOf(HasSubstr("upstream.z"), HasSubstr("y")));
}

TEST(CliArguments, ValueOutOfRange) {
  EXPECT_THAT(refused({"emit", "kda_k1", "--set", "lower_bound=1"}), AllOf(HasSubstr("lower_bound=1"), HasSubstr("from -10000 to 0")));
  EXPECT_THAT(refused({"ranges", "rmsnorm", "--set", "chunk=20"}), AllOf(HasSubstr("chunk=20"), HasSubstr("multiple of 8")));
  EXPECT_THAT(refused({"show", "rmsnorm", "--set", "eps=nan"}), HasSubstr("eps=nan"));
  EXPECT_THAT(refused({"show", "kda_k1", "--set", "gt=k3"}), AllOf(HasSubstr("gt=k3"), HasSubstr("k2, pure")));
  EXPECT_THAT(refused({"emit", "rmsnorm", "--set", "layout=thd"}), AllOf(HasSubstr("layout=thd"), HasSubstr("bthd, htd")));
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

TEST(CliArguments, UnknownRegime) {
  EXPECT_THAT(refused({"check", "kda_k1", "--regime", "tpyical"}), AllOf(HasSubstr("tpyical"), HasSubstr("typical")));
}

TEST(CliArguments, HelpAndVersionAreNoErrors) {
  EXPECT_EQ(kdagen::testing::kdagen({"--help"}).code, 0);
  EXPECT_EQ(kdagen::testing::kdagen({"run", "--help"}).code, 0);
  EXPECT_THAT(kdagen::testing::kdagen({"--version"}).out, HasSubstr("kdagen "));
}
