// SPDX-License-Identifier: Apache-2.0
// Nothing is executed, or believed, that others could have put there: folders, files, programs, and the names that
// reach a shell.
#include "runtime/trust.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/compile.h"
#include "runtime/files.h"
#include "runtime/process.h"
#include "runtime/tuning_store.h"
#include "tests/common/row_scale.h"
#include "tests/common/trusted_places.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

namespace fs = std::filesystem;
class Trust : public TrustedPlaces {
 protected:
  static Cache cache_in(const fs::path& folder) {
    WithVariable named("KDAGEN_CACHE_DIR", folder.string());
    return Cache(choose_cache_directory());
  }
  static CachedObject get(Cache& cache) {
    return cache.get({"k", "", "", {}}, [] {
      CachedObject fresh;
      fresh.bytes = "built";
      return fresh;
    });
  }
};

}  // namespace

TEST_F(Trust, AFolderThatEverybodyMayWriteOnTheWay) {
  const fs::path open = folder("open", 0777);
  EXPECT_THAT(trust_problem(folder("open/own", 0700)), HasSubstr("other users may write " + open.string()));
  EXPECT_FALSE(cache_in(open / "own").directory().persistent);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("could put another folder in its place")));
  ASSERT_EQ(::chmod(open.c_str(), 01777), 0);  // as /tmp: what is in it can be replaced by its owner only
  EXPECT_EQ(trust_problem(open / "own"), "");
  EXPECT_THAT(trust_problem(open), HasSubstr("chmod 700"));  // but others may add to it
}

TEST_F(Trust, OtherUsersAndGroups) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives folders away";
  const fs::path theirs = folder("theirs", 0755), own = folder("theirs/own", 0700);
  EXPECT_EQ(trust_problem(own), "");
  ASSERT_EQ(::chown(theirs.c_str(), stranger, 0), 0);
  EXPECT_THAT(trust_problem(own), HasSubstr("belongs to another user (id 12345), who could put another folder"));
  EXPECT_THAT(trust_problem(theirs), HasSubstr("who could plant code in it"));
  ASSERT_EQ(::chown(theirs.c_str(), 0, stranger), 0);
  ASSERT_EQ(::chmod(theirs.c_str(), 0775), 0);
  EXPECT_THAT(trust_problem(own), HasSubstr("other users may write"));
  ASSERT_EQ(::chown(own.c_str(), 0, stranger), 0);
  ASSERT_EQ(::chmod(own.c_str(), 0770), 0);
  EXPECT_THAT(trust_problem(own), HasSubstr("other users may write " + own.string()));
  spill(place.path() / "file", "x");
  ASSERT_EQ(::chown((place.path() / "file").c_str(), 0, stranger), 0);
  ASSERT_EQ(::chmod((place.path() / "file").c_str(), 0660), 0);
  std::string error;
  EXPECT_FALSE(read_file(place.path() / "file", error, true));
  EXPECT_TRUE(read_file(place.path() / "file", error));
}

// A group of the user's own has the user's number; root's is 0.
TEST_F(Trust, TheOwnGroupMayWrite) {
  if (::getegid() != ::geteuid()) GTEST_SKIP() << "the group is not the user's own";
  EXPECT_EQ(trust_problem(folder("grouped", 0770)), "");
}

TEST_F(Trust, ALinkIsFollowedOnce) {
  fs::create_directory_symlink(folder("first", 0700), place.path() / "link");
  Cache cache = cache_in(place.path() / "link");
  EXPECT_EQ(cache.directory().path, fs::canonical(place.path()) / "first");
  fs::remove(place.path() / "link");
  fs::create_directory_symlink(folder("second", 0700), place.path() / "link");
  EXPECT_EQ(get(cache).file.parent_path(), fs::canonical(place.path()) / "first/objects");
  EXPECT_TRUE(fs::is_empty(place.path() / "second"));
}

TEST_F(Trust, FoldersInsideTheCache) {
  for (const char* kind : {"open", "link"}) {
    const fs::path root = folder(kind, 0700), objects = root / "objects";
    Cache cache = cache_in(root);
    if (kind == std::string("open"))
      folder("open/objects", 0777);
    else
      fs::create_directory_symlink(folder("elsewhere", 0700), objects);
    warnings.clear();
    const CachedObject object = get(cache);
    EXPECT_EQ(object.bytes, "built");
    EXPECT_TRUE(object.file.empty());
    EXPECT_TRUE(fs::is_empty(objects));
    EXPECT_THAT(warnings, ElementsAre(HasSubstr(objects.string())));
  }
}

TEST_F(Trust, HeadersAreNotTakenFromAnOpenFolder) {
  const EmbeddedFile files[] = {{"kdagen/a.h", "int a;"}};
  Cache cache = cache_in(folder("cache", 0700));
  const fs::path include = cache.unpack(files);
  ASSERT_EQ(::chmod((include / "kdagen").c_str(), 0777), 0);
  const fs::path again = cache.unpack(files);
  EXPECT_NE(again, include);
  EXPECT_EQ(slurp(again / "kdagen/a.h"), "int a;");
}

TEST_F(Trust, TimingsAreNotTakenFromAnOpenFolder) {
  const TuningKey key{"0123456789abcdef", "NVRTC 13.1", "a machine", {}};
  const TuningStore store(place.path(), "Fake 90", "sm_90", "sample_fwd");
  store.add_timing(key, {"threads=128", "t"}, 3);
  EXPECT_EQ(store.entries(key).size(), 1u);
  ASSERT_EQ(::chmod((place.path() / "tuning").c_str(), 0777), 0);
  EXPECT_THAT(store.entries(key), IsEmpty());
  store.add_timing(key, {"threads=256", "t"}, 2);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("timings are not kept: other users may write")));
  ASSERT_EQ(::chmod((place.path() / "tuning").c_str(), 0700), 0);
  EXPECT_EQ(store.entries(key).size(), 1u);
}

TEST_F(Trust, PrivateWhateverTheUmask) {
  EXPECT_EQ(in_child([&] {
              ::umask(0);
              Cache cache = cache_in(place.path() / "deep/cache");
              get(cache);
              const EmbeddedFile files[] = {{"kdagen/a.h", "int a;"}};
              cache.unpack(files);
              TuningStore(cache.directory().path, "d", "a", "k").add_timing({"h", "c", "m", {}}, {"s", "t"}, 1);
              const TemporaryDirectory work = cache.scratch();
              const std::string_view pieces[] = {"text"};
              write_file_atomically(work.path() / "kernel.cu", pieces, false);
              int seen = 0;
              for (const auto& item : fs::recursive_directory_iterator(place.path())) {
                struct stat status{};
                ::lstat(item.path().c_str(), &status);
                if (status.st_mode & 077) return 1;
                ++seen;
              }
              return seen >= 12 ? 0 : 2;
            }),
            0);
}

TEST_F(Trust, TemporaryFilesAreNotPutWhereTheyCouldBeReplaced) {
  WithVariable named("TMPDIR", folder("open", 0777).string());
  const TemporaryDirectory elsewhere(std::vector<fs::path>{});
  EXPECT_FALSE(elsewhere.path().string().starts_with((place.path() / "open").string()));
  EXPECT_THAT(warnings, Contains(HasSubstr("no temporary files are put into " + (place.path() / "open").string())));
  ASSERT_EQ(::chmod((place.path() / "open").c_str(), 01777), 0);
  const TemporaryDirectory inside(std::vector<fs::path>{});
  EXPECT_EQ(inside.path().parent_path(), fs::canonical(place.path() / "open"));
}

TEST_F(Trust, ProgramsThatAnybodyCouldHavePutThere) {
  const fs::path good = folder("good", 0755), open = folder("open", 0777);
  program(good / "tool");
  program(open / "tool");
  const auto found = [](const std::string& path) {
    WithVariable named("PATH", path);
    return find_program("tool").value_or("none").string();
  };
  EXPECT_EQ(found(open.string() + ":" + good.string()), (good / "tool").string());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr((open / "tool").string() + " is not run: everybody may write")));
  EXPECT_FALSE(find_program((open / "tool").string()));
  EXPECT_THROW(run_process({(open / "tool").string()}), kdagen::ToolchainError);
  ASSERT_EQ(::chmod((good / "tool").c_str(), 0777), 0);
  EXPECT_EQ(found(good.string()), "none");
  ASSERT_EQ(::chmod((good / "tool").c_str(), 0755), 0);
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chmod(open.c_str(), 01777), 0);
  EXPECT_EQ(found(open.string()), (open / "tool").string());  // nobody else can replace it
  ASSERT_EQ(::chown((open / "tool").c_str(), stranger, stranger), 0);
  EXPECT_EQ(found(open.string()), "none");
  ASSERT_EQ(::chown((good / "tool").c_str(), stranger, stranger), 0);
  EXPECT_EQ(found(good.string()), (good / "tool").string());  // installed by somebody in a folder of root's
}

TEST_F(Trust, ProgramsBelowTheWorkingDirectory) {
  program(folder("here", 0755) / "tool");
  const fs::path before = fs::current_path();
  fs::current_path(place.path() / "here");
  for (const char* path : {"", ".", ":", ".:/nowhere", "../here", "/nowhere::"}) {
    WithVariable named("PATH", path);
    EXPECT_FALSE(find_program("tool")) << path;
  }
  EXPECT_TRUE(find_program("./tool"));
  fs::current_path(before);
}

TEST_F(Trust, LibrariesThatAnybodyCouldHavePutThere) {
  const fs::path library = folder("open", 0777) / "libnvrtc.so.13";
  spill(library, "");
  WithVariable named("KDAGEN_NVRTC", library.string());
  try {
    find_compiler(CompilerChoice::nvrtc);
    ADD_FAILURE() << "no error";
  } catch (const kdagen::ToolchainError& error) {
    EXPECT_THAT(error.what(), HasSubstr("everybody may write"));
  }
}

// nvcc hands its arguments and TMPDIR to a shell. This one does so too.
TEST_F(Trust, NoNameOfAFolderReachesAShell) {
  const fs::path bin = folder("bin", 0755),
                 odd = place.path() / "a 'b' $(touch shell1) `touch shell2`; \"touch shell3\" \xc3\xa9";
  program(
      bin / "nvcc",
      "case \"$1\" in --version) echo 'release 13.0, V13.0.88'; exit;; --list-gpu-arch) echo compute_90; exit;; esac\n"
      "for word in \"$@\" \"$TMPDIR\"; do eval \"word=$word\"; echo \"$word\" >> " +
          (place.path() / "words").string() +
          "; done\n"
          "test -r include/kdagen/device.cuh && echo object > kernel.out\n");
  WithVariable named("KDAGEN_CACHE_DIR", odd.string()), nvcc("KDAGEN_NVCC", (bin / "nvcc").string());
  Cache cache(choose_cache_directory());
  ASSERT_TRUE(cache.directory().persistent);
  CompileOptions options;
  options.compiler = CompilerChoice::nvcc;
  options.kernel = "row_scale";
  EXPECT_EQ(compile(row_scale_text, "sm_90", options, cache).image, "object\n");
  EXPECT_THAT(slurp(place.path() / "words"), HasSubstr("kernel.cu\n"));
  EXPECT_EQ(slurp(place.path() / "words").find(place.path().string()), std::string::npos);
  for (const auto& item : fs::recursive_directory_iterator(place.path()))
    EXPECT_FALSE(item.path().filename().string().starts_with("shell")) << item.path();
  EXPECT_FALSE(fs::exists("shell1"));
}

TEST_F(Trust, CompilersWriteNothingBesides) {
  const std::string other = (place.path() / "besides").string();
  WithVariable dependencies("DEPENDENCIES_OUTPUT", other), more("SUNPRO_DEPENDENCIES", other),
      options("CCC_OVERRIDE_OPTIONS", "+-DNO"), search("LD_RUN_PATH", "/nowhere");
  Cache cache = cache_in(folder("cache", 0700));
  CompileOptions host;
  host.kernel = "row_scale";
  const CompiledText text = compile_host(row_scale_text, host, cache);
  EXPECT_FALSE(fs::exists(other));
  EXPECT_EQ(text.image.find("/nowhere"), std::string::npos);
}

// A program with another's rights takes no orders from its environment. This test runs itself as one.
TEST_F(Trust, ProgramsWithAnothersRightsTakeNoVariables) {
  if (const char* expected = std::getenv("KDAGEN_TEST_RIGHTS")) {
    const bool other = ::geteuid() != ::getuid();
    std::_Exit(!other ? 77 : environment_variable("KDAGEN_TEST_RIGHTS").empty() && *expected ? 0 : 1);
  }
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes such programs";
  ASSERT_EQ(::chmod(place.path().c_str(), 0755), 0);
  const std::string copy = (place.path() / "copy").string();
  fs::copy_file("/proc/self/exe", copy);
  ASSERT_EQ(::chown(copy.c_str(), stranger, stranger), 0);
  ASSERT_EQ(::chmod(copy.c_str(), 04755), 0);
  const int code = in_child([&] {
    ::setenv("KDAGEN_TEST_RIGHTS", "set", 1);
    ::execl(copy.c_str(), copy.c_str(), "--gtest_filter=Trust.ProgramsWithAnothersRightsTakeNoVariables", nullptr);
    return 77;
  });
  if (code == 77) GTEST_SKIP() << "this file system has no such programs";
  EXPECT_EQ(code, 0);
}
