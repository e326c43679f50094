// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "runtime/cache.h"
#include "runtime/warn.h"
#include "tests/common/scratch.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;

namespace {

class CacheDirectoryTest : public ::testing::Test {
 protected:
  CacheDirectoryTest() {
    set_warning_sink([this](const std::string& message) { warnings.push_back(message); });
  }
  ~CacheDirectoryTest() override { set_warning_sink({}); }

  /// The folder is refused with one warning that has `reason`, and the cache works all the same.
  void expect_private(const std::string& reason) {
    std::filesystem::path used;
    {
      Cache cache(choose_cache_directory());
      used = cache.directory().path;
      EXPECT_FALSE(cache.directory().persistent);
      EXPECT_FALSE(used.empty());
      const CachedObject object = cache.get({"k", "", "", {}}, [] {
        CachedObject fresh;
        fresh.bytes = "works";
        return fresh;
      });
      EXPECT_EQ(object.bytes, "works");
      EXPECT_NE(cache.explain().find("private"), std::string::npos);
    }
    EXPECT_FALSE(std::filesystem::exists(used)) << "the private folder stays behind";
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find(reason), std::string::npos) << warnings[0];
    EXPECT_NE(warnings[0].find("KDAGEN_CACHE_DIR"), std::string::npos);
  }

  Scratch place = scratch();
  WithVariable own{"KDAGEN_CACHE_DIR", std::nullopt}, xdg{"XDG_CACHE_HOME", std::nullopt}, home{"HOME", std::nullopt};
  std::vector<std::string> warnings;
};

}  // namespace

TEST_F(CacheDirectoryTest, OrderOfTheVariables) {
  const std::string base = place.path().string();
  WithVariable set_home("HOME", base + "/user");
  EXPECT_EQ(choose_cache_directory().path, base + "/user/.cache/kdagen");
  WithVariable set_xdg("XDG_CACHE_HOME", base + "/xdg");
  EXPECT_EQ(choose_cache_directory().path, base + "/xdg/kdagen");
  WithVariable set_own("KDAGEN_CACHE_DIR", base + "/own/deep");
  const CacheDirectory directory = choose_cache_directory();
  EXPECT_EQ(directory.path, base + "/own/deep");
  EXPECT_EQ(directory.origin, "KDAGEN_CACHE_DIR");
  EXPECT_TRUE(directory.persistent);
  struct stat status{};
  ASSERT_EQ(::stat((base + "/own").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheDirectoryTest, RelativeXdgFolderIsIgnoredAndAnEmptyVariableIsNone) {
  WithVariable set_home("HOME", place.path().string()), set_xdg("XDG_CACHE_HOME", "relative"),
      set_own("KDAGEN_CACHE_DIR", "");
  EXPECT_EQ(choose_cache_directory().origin, "HOME");
}

// T108
TEST_F(CacheDirectoryTest, NoVariableAtAll) { expect_private("HOME"); }

// T108
TEST_F(CacheDirectoryTest, PathIsAFile) {
  spill(place.path() / "file", "");
  WithVariable set("KDAGEN_CACHE_DIR", (place.path() / "file").string());
  expect_private("is not a folder");
}

TEST_F(CacheDirectoryTest, PathBelowAFile) {
  spill(place.path() / "file", "");
  WithVariable set("KDAGEN_CACHE_DIR", (place.path() / "file" / "below").string());
  expect_private("file");
}

TEST_F(CacheDirectoryTest, FolderThatEverybodyMayWrite) {
  ::chmod(place.path().c_str(), 0777);
  WithVariable set("KDAGEN_CACHE_DIR", place.path().string());
  expect_private("other users may write");
}

TEST_F(CacheDirectoryTest, FolderOfAnotherUser) {
  std::string folder = "/usr";  // root's
  if (::geteuid() == 0) {
    folder = place.path().string();
    ASSERT_EQ(::chown(folder.c_str(), 12345, 12345), 0);
  }
  WithVariable set("KDAGEN_CACHE_DIR", folder);
  expect_private("another user");
}

// T108
TEST_F(CacheDirectoryTest, FolderThatCannotBeWritten) {
  const std::filesystem::path folder = place.path() / "closed";
  std::filesystem::create_directory(folder);
  ASSERT_EQ(::chmod(folder.c_str(), 0500), 0);
  WithVariable set("KDAGEN_CACHE_DIR", folder.string());
  if (::geteuid() != 0) return expect_private("cannot write");
  // root may write everywhere, so another user tries
  constexpr unsigned nobody = 65534;
  ASSERT_EQ(::chmod(place.path().c_str(), 0755), 0);
  ASSERT_EQ(::chown(folder.c_str(), nobody, nobody), 0);
  EXPECT_EQ(in_child([&] {
              if (::setgid(nobody) != 0 || ::setuid(nobody) != 0) return 2;
              expect_private("cannot write");
              return HasFailure() ? 1 : 0;
            }),
            0);
}

// T108
TEST_F(CacheDirectoryTest, TooLongAPath) {
  std::string path = place.path().string();
  for (int i = 0; i < 60; ++i) path += "/" + std::string(100, 'x');
  WithVariable set("KDAGEN_CACHE_DIR", path);
  expect_private("cannot create");
}

// T109
TEST_F(CacheDirectoryTest, MissingTemporaryFolderFallsBackToTheCacheOrTmp) {
  WithVariable set("TMPDIR", (place.path() / "missing").string());
  EXPECT_TRUE(TemporaryDirectory(std::vector<std::filesystem::path>{}));
  const TemporaryDirectory inside({place.path()});
  EXPECT_EQ(inside.path().parent_path(), place.path());
}

TEST_F(CacheDirectoryTest, AChildDoesNotRemoveItsParentsFolder) {
  const TemporaryDirectory folder({place.path()});
  EXPECT_EQ(in_child([&] {
              TemporaryDirectory mine(std::move(const_cast<TemporaryDirectory&>(folder)));
              return 0;
            }),
            0);
  EXPECT_TRUE(std::filesystem::exists(folder.path()));
}
