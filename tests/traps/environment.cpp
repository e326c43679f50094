// SPDX-License-Identifier: Apache-2.0
// Folders that are missing, full, read-only or oddly named, and attempts after failures: T108, T109, T111 of
// docs/traps.md.
#include <sched.h>
#include <sys/mount.h>

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/kdagen_process.h"

using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

const std::vector<std::string> compiles{"check", "l2norm", "--pass", "fwd", "--on", "emulator", "--tokens", "5"};

/// Runs `action` in a process that sees a disk of its own at `place`; false if that is not allowed here.
bool with_disk(const std::filesystem::path& place, const std::string& size, bool read_only,
               const std::function<void()>& action) {
  constexpr int not_allowed = 77;
  std::filesystem::create_directories(place);
  const int code = in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0) return not_allowed;
    if (::mount("tmpfs", place.c_str(), "tmpfs", read_only ? MS_RDONLY : 0, ("size=" + size + ",mode=0700").c_str()) !=
        0)
      return not_allowed;
    action();
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  if (code != not_allowed) EXPECT_EQ(code, 0);
  return code != not_allowed;
}

void expect_works(const Environment& environment, const std::string& warning) {
  const Outcome outcome = kdagen::testing::kdagen(compiles, environment);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              warning.empty() ? Not(HasSubstr("warning")) : ::testing::Matcher<std::string>(HasSubstr(warning)));
}

}  // namespace

TEST(Environment, T108CacheOnAFullDisk) {
  const Scratch folder = scratch();
  if (!with_disk(folder.path() / "disk", "16k", false, [&] {
        expect_works({{"KDAGEN_CACHE_DIR", (folder.path() / "disk/cache").string()}}, "No space left");
      }))
    GTEST_SKIP() << "no disk may be mounted here";
  // Room for the object, and for nothing that the compiler writes on its way.
  with_disk(folder.path() / "disk", "256k", false,
            [&] { expect_works({{"KDAGEN_CACHE_DIR", (folder.path() / "disk/cache").string()}}, ""); });
}

TEST(Environment, T108CacheOnAReadOnlyDisk) {
  const Scratch folder = scratch();
  if (!with_disk(folder.path() / "disk", "1m", true, [&] {
        expect_works({{"KDAGEN_CACHE_DIR", (folder.path() / "disk/cache").string()}}, "KDAGEN_CACHE_DIR");
      }))
    GTEST_SKIP() << "no disk may be mounted here";
}

TEST(Environment, T108OddFolders) {
  const Scratch folder = scratch();
  expect_works({{"KDAGEN_CACHE_DIR", (folder.path() / "with space, 'quotes', $HOME; and ümläut").string()}}, "");
  expect_works({{"KDAGEN_CACHE_DIR", (folder.path() / std::string(200, 'a') / std::string(200, 'b')).string()}}, "");
  spill(folder.path() / "file", "x");
  expect_works({{"KDAGEN_CACHE_DIR", (folder.path() / "file").string()}}, "file");
  expect_works({{"KDAGEN_CACHE_DIR", ""}, {"HOME", ""}, {"XDG_CACHE_HOME", ""}}, "HOME");
}

TEST(Environment, T109TemporaryFolders) {
  const Scratch folder = scratch();
  const std::filesystem::path odd = folder.path() / "with space";
  std::filesystem::create_directories(odd);
  const auto cache = [&](const char* name) { return (folder.path() / name).string(); };
  expect_works({{"KDAGEN_CACHE_DIR", cache("one")}, {"TMPDIR", odd.string()}}, "");
  EXPECT_TRUE(listing(odd).empty());
  expect_works({{"KDAGEN_CACHE_DIR", cache("two")}, {"TMPDIR", "/no/such/folder"}}, "");
  if (!with_disk(folder.path() / "full", "4k", false, [&] {
        expect_works({{"KDAGEN_CACHE_DIR", cache("three")}, {"TMPDIR", (folder.path() / "full").string()}}, "");
      }))
    GTEST_SKIP() << "no disk may be mounted here";
}

TEST(Environment, T111AnotherAttemptAfterAFailure) {
  const Scratch folder = scratch();
  const std::string spec = (folder.path() / "twice.cpp").string(), out = (folder.path() / "out").string();
  const auto write = [&](const std::string& formula) {
    spill(
        spec,
        "#include <kdagen/kdagen.h>\nusing namespace kdagen;\nstatic Spec twice(const Options& o) {\n  Spec s(\"twice\", \"\", o);\n"
        "  Axis t = s.rows(\"t\"), h = s.heads(\"h\"), d = s.features(\"d\");\n  Value x = s.input(\"x\", {t, h, d});\n"
        "  s.output(\"y\", " +
            formula + ");\n  return s;\n}\nKDAGEN_SPEC(twice, twice)\n");
  };
  write("no_such_function(x)");
  std::set<std::string> errors;
  for (int i = 0; i < 3; ++i) {
    const Outcome outcome = kdagen::testing::kdagen({"emit", spec, "-o", out});
    EXPECT_EQ(outcome.code, 2);
    errors.insert(outcome.err);
  }
  EXPECT_EQ(errors.size(), 1u);
  EXPECT_THAT(*errors.begin(), AllOf(HasSubstr("twice.cpp:7"), HasSubstr("no_such_function")));
  EXPECT_FALSE(std::filesystem::exists(out));
  write("2.0 * x");
  EXPECT_EQ(kdagen::testing::kdagen({"emit", spec, "-o", out}).code, 0);
  EXPECT_EQ(listing(out).size(), 4u);
}
