// SPDX-License-Identifier: Apache-2.0
// The ways to what is executed: links that others could turn, folders that the loader searches, groups of more than
// one.
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/compilers.h"
#include "runtime/driver.h"
#include "runtime/libraries.h"
#include "runtime/nvrtc.h"
#include "runtime/process.h"
#include "runtime/trust.h"
#include "tests/common/trusted_places.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

namespace fs = std::filesystem;
class TrustedWays : public TrustedPlaces {
 protected:
  fs::path library(const fs::path& file, const std::string& text) const {
    spill(place.path() / "library.cpp", text);
    const ProcessResult result = run_process({find_compiler(CompilerChoice::host).path.string(), "-shared", "-fPIC",
                                              "-o", file.string(), (place.path() / "library.cpp").string()});
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return file;
  }
  /// This test again in a process whose loader has the search path; what it prints.
  static std::string again(const std::string& what, const std::string& search, const fs::path& directory = {}) {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string filter = std::string("--gtest_filter=TrustedWays.") + test->name();
    return run_process({fs::canonical("/proc/self/exe").string(), filter},
                       {directory, {{"KDAGEN_TEST_AGAIN", what}, {"LD_LIBRARY_PATH", search}}})
        .output;
  }
  static std::string asked() {
    const char* what = std::getenv("KDAGEN_TEST_AGAIN");
    return what ? what : "";
  }
  [[noreturn]] static void tell(const std::string& text) {
    std::fputs(("told: " + text + "\n").c_str(), stdout);
    std::fflush(stdout);
    std::_Exit(0);
  }
};

}  // namespace

// Where a link leads may be above suspicion, but whoever can turn the link says what is run.
TEST_F(TrustedWays, LinksInAFolderThatEverybodyMayWrite) {
  const fs::path good = folder("good", 0755), open = folder("open", 0777);
  program(good / "tool", "exit 0\n");
  fs::create_symlink(good / "tool", open / "tool");
  fs::create_symlink("open/tool", place.path() / "over");
  fs::create_directory_symlink(good, open / "folder");
  for (const fs::path& way : {open / "tool", place.path() / "over", open / "folder/tool", good / "../open/tool"}) {
    EXPECT_FALSE(find_program(way.string())) << way;
    EXPECT_THROW(run_process({way.string()}), kdagen::ToolchainError) << way;
    WithVariable named("KDAGEN_NVRTC", way.string());
    try {
      find_compiler(CompilerChoice::nvrtc);
      ADD_FAILURE() << way;
    } catch (const kdagen::ToolchainError& error) {
      EXPECT_THAT(error.what(), HasSubstr("everybody may write " + open.string())) << way;
    }
  }
  EXPECT_THAT(warnings, Contains(AllOf(HasSubstr("everybody may write " + open.string()), HasSubstr("chmod o-w"))));
  ASSERT_EQ(::chmod(open.c_str(), 01777), 0);  // as /tmp: nobody else can replace this user's link
  EXPECT_TRUE(find_program((open / "tool").string()));
  if (::geteuid() != 0) return;
  ASSERT_EQ(::lchown((open / "tool").c_str(), stranger, stranger), 0);
  EXPECT_FALSE(find_program((open / "tool").string()));
  EXPECT_THAT(warnings, Contains(HasSubstr((open / "tool").string() + " belongs to another user (id 12345)")));
}

// Wrappers and compilers tell by the name that they were called by what they are, and where their parts lie.
TEST_F(TrustedWays, ProgramsKeepTheNameOfTheLink) {
  const fs::path bin = folder("bin", 0755), real = folder("real", 0755);
  program(real / "wrapper", "echo \"$0\"\n");
  fs::create_symlink("../real/wrapper", bin / "first");
  fs::create_symlink((bin / "first").string(), bin / "g++");
  EXPECT_EQ(run_process({(bin / "g++").string()}).output, (bin / "g++").string() + "\n");
  fs::create_symlink("round", bin / "round");
  EXPECT_THAT(execution_problem(bin / "round"), HasSubstr("cannot follow the link"));
  EXPECT_THAT(execution_problem(bin / "none"), HasSubstr("cannot look at " + (bin / "none").string()));
  EXPECT_EQ(execution_problem("/proc/self/exe"), "");
}

TEST_F(TrustedWays, LibrariesByNameAreNotLookedForWhereOthersCanPutThem) {
  if (!asked().empty()) {
    std::string reason;
    tell(open_library(asked(), reason) ? "loaded" : reason);
  }
  const fs::path good = folder("good", 0755), open = folder("open", 0777), mark = place.path() / "ran";
  library(good / "libplanted.so",
          "#include <fcntl.h>\nstatic int ran = open(\"" + mark.string() + "\", O_CREAT, 0600);\n");
  fs::copy_file(good / "libplanted.so", open / "libplanted.so");
  const auto refused = [&](const std::string& search, const std::string& reason, const fs::path& directory = {}) {
    EXPECT_THAT(again("libplanted.so", search, directory),
                AllOf(HasSubstr("told: the loader would look for libplanted.so in "), HasSubstr(reason),
                      HasSubstr("LD_LIBRARY_PATH")))
        << search;
    EXPECT_FALSE(fs::exists(mark)) << search;
  };
  refused(open.string(), "everybody may write " + open.string());
  refused((open / "missing").string(), "everybody may write " + open.string());
  refused(good.string() + ":" + open.string(), "everybody may write " + open.string());
  refused(":" + good.string(), "other users may write " + open.string(), open);
  refused(good.string() + ":open", "other users may write " + open.string(), place.path());
  ASSERT_EQ(::chmod(open.c_str(), 01777), 0);
  refused(open.string(), "everybody may put files into " + open.string());
  refused((open / "missing").string(), "everybody may put files into " + open.string());
  refused(good.string() + ":", "everybody may put files into " + open.string(), open);
  if (::geteuid() == 0) {
    const fs::path theirs = folder("theirs", 0755);
    ASSERT_EQ(::chown(theirs.c_str(), stranger, stranger), 0);
    refused(":" + good.string(), theirs.string() + " belongs to another user", theirs);
  }
  for (const std::string& search : {good.string(), good.string() + ":", "/nowhere/at/all:" + good.string()}) {
    EXPECT_THAT(again("libplanted.so", search, good), HasSubstr("told: loaded")) << search;
    EXPECT_TRUE(fs::remove(mark)) << search;
  }
  EXPECT_THAT(again("libm.so.6", ""), HasSubstr("told: loaded"));
  EXPECT_THAT(again("libm.so.6", open.string()), Not(HasSubstr("told: loaded")));
}

TEST_F(TrustedWays, TheDriverAndNvrtcAreLibrariesByName) {
  if (asked() == "driver") tell(driver_status().ok ? "driver loaded" : driver_status().reason);
  if (asked() == "nvrtc") try {
      tell(nvrtc_library().path.string());
    } catch (const kdagen::ToolchainError& error) {
      tell(error.what());
    }
  const fs::path good = folder("good", 0755), open = folder("open", 0777);
  for (const fs::path& where : {good, open}) {
    fs::copy_file(KDAGEN_FAKE_CUDA, where / "libcuda.so.1");
    library(where / "libnvrtc.so.13", "static int ran = __builtin_printf(\"nvrtc ran\\n\");\n");
  }
  WithVariable no_driver("KDAGEN_LIBCUDA", std::nullopt), no_nvrtc("KDAGEN_NVRTC", std::nullopt);
  EXPECT_THAT(again("driver", good.string()), HasSubstr("told: driver loaded"));
  EXPECT_THAT(again("driver", open.string()), HasSubstr("look for libcuda.so.1 in \"" + open.string() + "\""));
  EXPECT_THAT(again("nvrtc", good.string()), HasSubstr("nvrtc ran"));
  EXPECT_THAT(again("nvrtc", open.string()), Not(HasSubstr("nvrtc ran")));
}

TEST_F(TrustedWays, CompilersGetTheLibraryPathThatOthersCannotFill) {
  const std::string good = folder("good", 0755).string(), open = folder("open", 0777).string();
  const auto passed_on = [] { return run_process({"sh", "-c", "echo \"$LD_LIBRARY_PATH\""}).output; };
  WithVariable search("LD_LIBRARY_PATH", open + "::relative:" + good + ":");
  EXPECT_EQ(passed_on(), good + "\n");
  WithVariable only("LD_LIBRARY_PATH", open);
  EXPECT_EQ(passed_on(), "\n");
}

// The user's number says nothing about a group that has other members.
TEST_F(TrustedWays, AGroupWithOtherMembersIsNotTheUsersOwn) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root takes another user's number";
  constexpr int not_allowed = 77;
  const fs::path groups = place.path() / "group", users = place.path() / "passwd";
  fs::permissions(place.path(), fs::perms::others_exec | fs::perms::others_read, fs::perm_options::add);
  const fs::path own = folder("own", 0770);
  ASSERT_EQ(::chown(own.c_str(), stranger, stranger), 0);
  const auto problem = [&](const std::string& listed, const std::string& first_group_of_other) {
    spill(groups, "root:x:0:\nsomebody:x:12345:" + listed + "\n");
    spill(users, "root:x:0:0::/:/bin/sh\nsomebody:x:12345:12345::/:/bin/sh\nother:x:12346:" + first_group_of_other +
                     "::/:/bin/sh\n");
    for (const fs::path& file : {groups, users}) ::chmod(file.c_str(), 0644);
    return in_child([&] {
      if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount(groups.c_str(), "/etc/group", "", MS_BIND, nullptr) != 0 ||
          ::mount(users.c_str(), "/etc/passwd", "", MS_BIND, nullptr) != 0 || ::setgroups(0, nullptr) != 0 ||
          ::setegid(stranger) != 0 || ::seteuid(stranger) != 0)
        return not_allowed;
      const std::string found = trust_problem(own);
      return found.empty() ? 0 : found.find("other users may write " + own.string()) != std::string::npos ? 1 : 2;
    });
  };
  const int alone = problem("", "12346");
  if (alone == not_allowed) GTEST_SKIP() << "no mounts are allowed here";
  EXPECT_EQ(alone, 0);
  EXPECT_EQ(problem("somebody", "12346"), 0);
  EXPECT_EQ(problem("somebody,other", "12346"), 1);
  EXPECT_EQ(problem("", "12345"), 1);
}
