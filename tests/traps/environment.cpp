// SPDX-License-Identifier: Apache-2.0
// Folders that are missing, full, read-only or oddly named, specs that change behind a warm cache, and attempts after
// failures: T079, T108, T109, T111 of docs/traps.md.
#include <sys/stat.h>

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/safetensors.h"
#include "tests/common/disk.h"
#include "tests/common/kdagen_process.h"

using namespace kdagen::testing;
namespace runtime = kdagen::runtime;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

const std::vector<std::string> compiles{"check", "l2norm", "--pass", "fwd", "--on", "emulator", "--tokens", "5"};

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

// No variable, and neither /tmp nor /var/tmp can be written: the cache's folder serves, or a message says so.
TEST(Environment, T109NoTemporaryFolderCanBeWritten) {
  const Scratch folder = scratch();
  const std::filesystem::path cache = folder.path() / "cache";
  std::filesystem::create_directories(cache);
  ASSERT_EQ(::chmod(cache.c_str(), 0700), 0);
  const auto mounts = [&] {
    return ::mount(cache.c_str(), cache.c_str(), "", MS_BIND, nullptr) == 0 && make_read_only("/tmp") &&
           make_read_only("/var/tmp");
  };
  const bool allowed = with_mounts(mounts, [&] {
    const auto run = [&](const std::filesystem::path& cache_folder, const std::string& err) {
      const runtime::ProcessResult result = runtime::run_process(
          {"/bin/sh", "-c", "exec \"$0\" check l2norm --pass fwd --on emulator --tokens 5 2>\"$ERR\"", KDAGEN_BINARY},
          {{}, {{"KDAGEN_CACHE_DIR", cache_folder.string()}, {"TMPDIR", ""}, {"ERR", err}}});
      return Outcome{result.exit_code, result.output, slurp(err)};
    };
    EXPECT_FALSE(std::ofstream("/tmp/kdagen_test_of_a_read_only_tmp"));
    const Outcome served = run(cache, (cache / "err").string());
    EXPECT_EQ(served.code, 0) << served.err;
    EXPECT_EQ(served.err, "");
    for (const std::string& name : listing(cache))
      EXPECT_TRUE(name == "err" || name == "objects" || name.starts_with("include-")) << name;
    const Outcome nowhere = run(folder.path() / "another", (cache / "err").string());
    EXPECT_EQ(nowhere.code, 3) << nowhere.err;
    EXPECT_THAT(nowhere.err,
                AllOf(HasSubstr("no folder for a compiler's files can be made"), HasSubstr("Set KDAGEN_CACHE_DIR")));
  });
  if (!allowed) GTEST_SKIP() << "no disk may be mounted here";
}

// The old caller meets the new signature, whatever is in the cache.
TEST(Environment, T079ChangedSpecOnAWarmCache) {
  const Scratch folder = scratch();
  const std::string spec = (folder.path() / "scaled.cpp").string(), out = (folder.path() / "out").string();
  const auto write = [&](const std::string& parameters, const std::string& formula) {
    spill(spec,
          "#include <kdagen/kdagen.h>\nusing namespace kdagen;\nstatic Spec scaled(const Options& o) {\n"
          "  Spec s(\"scaled\", \"\", o);\n  Axis t = s.rows(\"t\"), h = s.heads(\"h\"), d = s.features(\"d\");\n" +
              parameters + "  s.output(\"y\", " + formula +
              ").dtype(f32);\n  return s;\n}\nKDAGEN_SPEC(scaled, scaled)\n");
  };
  const std::string x = "  Value x = s.input(\"x\", f32, {t, h, d});\n", w = "  Value w = s.param(\"w\", {h, d});\n",
                    more = "  Value p = s.param(\"p\", {h, d});\n";
  const auto call = [&](const std::vector<std::string>& names) {
    runtime::TensorFile in;
    for (const std::string& name : names) {
      const bool rows = name == "x";
      runtime::HostTensor tensor(runtime::DType::f32, rows ? runtime::Dims{1, 5, 2, 16} : runtime::Dims{2, 16});
      for (int64_t i = 0; i < tensor.elements(); ++i)
        tensor.set(i, rows ? static_cast<double>(i) : name == "w" ? 2 : 3);
      in.tensors.emplace(name, std::move(tensor));
    }
    runtime::write_safetensors(folder.path() / "in", in);
    std::filesystem::remove(out);
    return kdagen::testing::kdagen({"run", spec, "--set", "dim=16", "--pass", "fwd", "--on", "emulator", "--in",
                                    (folder.path() / "in").string(), "--out", out},
                                   {{"KDAGEN_CACHE_DIR", (folder.path() / "cache").string()}});
  };
  const auto y = [&] { return runtime::read_safetensors(out).tensors.at("y").get(7); };
  const auto refused = [&](const std::vector<std::string>& names, const std::string& about) {
    const Outcome outcome = call(names);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(about));
    EXPECT_FALSE(std::filesystem::exists(out));
  };
  write(x + w, "x * w");
  ASSERT_EQ(call({"x", "w"}).code, 0);
  EXPECT_EQ(y(), 14);
  write(x + w + more, "x * w + p");
  refused({"x", "w"}, "p");
  ASSERT_EQ(call({"x", "w", "p"}).code, 0);
  EXPECT_EQ(y(), 17);
  refused({"x", "w"}, "p");  // now both texts are in the cache
  write(x + more + w, "x * p + w");
  ASSERT_EQ(call({"x", "w", "p"}).code, 0);
  EXPECT_EQ(y(), 23);
  write("  Value x = s.input(\"x\", bf16, {t, h, d});\n" + w, "x * w");
  refused({"x", "w"}, "x");
  write(x + w, "x * w");
  refused({"x", "w", "p"}, "p");
  ASSERT_EQ(call({"x", "w"}).code, 0);
  EXPECT_EQ(y(), 14);
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
