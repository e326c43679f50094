// SPDX-License-Identifier: Apache-2.0
// Specs outside the tree: compiled by the host compiler, loaded, and compiled anew when anything they include changes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/common/spec_graph.h"
#include "tools/spec_source.h"

namespace fs = std::filesystem;
using kdagen::graph_bytes;
using kdagen::test::Graph;

namespace {

class Plugin : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "dsl_plugin.XXXXXX").string();
    ASSERT_TRUE(mkdtemp(name.data()));
    folder = name;
    setenv("KDAGEN_CACHE_DIR", (folder / "cache").c_str(), 1);
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string write(const std::string& file, const std::string& text) const {
    std::ofstream(folder / file) << text;
    return (folder / file).string();
  }
  fs::path folder;
};

}  // namespace

// One compilation serves the whole test, which is why it looks at several things.
TEST_F(Plugin, AFileOutsideTheTree) {
  const std::string path = KDAGEN_TEST_SPECS "/zigzag.cpp";
  const Graph g(graph_bytes(path, {{"chunk", "32"}, {"eps", "0.5"}}));
  EXPECT_EQ(g.json["name"], "zigzag");
  EXPECT_EQ(g.json["file"], path);
  EXPECT_EQ(g.json["chunk"], 32);
  EXPECT_EQ(g.option("eps")["value"], 0.5);
  EXPECT_EQ(g.formula("u"), R"(((xs * rsqrt(((sum[["d"]]((xs * xs)) / 128) + eps))) * gain))");
  EXPECT_EQ(g.formula("r"), R"((sum[["d"]]((u * x)) * sigmoid((rate * w))))");
  EXPECT_EQ(g.formula("back"), "cumsum[t exclusive reverse](r)");
  EXPECT_EQ(g.formula("y"), "((u * tanh(back)) + relu((top - u)))");
  EXPECT_EQ(g.node("top")["axes"].dump(), R"(["h","d"])");

  const auto objects = [&] { return std::distance(fs::directory_iterator(folder / "cache" / "objects"), {}); };
  const auto before = objects();
  EXPECT_EQ(graph_bytes(path, {}), graph_bytes(path, {{"chunk", "16"}}));
  EXPECT_EQ(objects(), before);
  try {
    graph_bytes(path, {{"epps", "1"}});
    ADD_FAILURE();
  } catch (const kdagen::UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("zigzag has no option epps (did you mean eps?)"), std::string::npos)
        << e.what();
  }
}

// T074
TEST_F(Plugin, AChangedIncludeCountsWhateverItsTime) {
  const std::string path = write("spec.cpp", R"(#include <kdagen/kdagen.h>
using namespace kdagen;
#include "factor.h"
static Spec f(const Options& o) {
  Spec s("f", "", o);
  Axis t = s.rows("t"), h = s.heads("h");
  s.output("y", s.input("x", {t, h}) * factor);
  return s;
}
KDAGEN_SPEC(f, f)
)");
  write("factor.h", "constexpr double factor = 2;\n");
  const auto time = fs::last_write_time(folder / "factor.h");
  EXPECT_EQ(Graph(graph_bytes(path, {})).formula("y"), "(x * 2)");
  write("factor.h", "constexpr double factor = 3;\n");
  fs::last_write_time(folder / "factor.h", time);
  EXPECT_EQ(Graph(graph_bytes(path, {})).formula("y"), "(x * 3)");
}

// A compiler takes "-o" for an option, and "@file" for options in that file, if there is one.
TEST_F(Plugin, NamesThatACompilerWouldReadAsOptions) {
  const std::string text = R"(#include <kdagen/kdagen.h>
using namespace kdagen;
static Spec f(const Options& o) {
  Spec s("f", "", o);
  Axis t = s.rows("t"), h = s.heads("h");
  s.output("y", s.input("x", {t, h}) * 2.0);
  return s;
}
KDAGEN_SPEC(f, f)
)";
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  write("spec.cpp", "-fno-such-option other.cpp\n");
  for (const std::string name : {"@spec.cpp", "-ospec.cpp"}) {
    write(name, text);
    EXPECT_EQ(Graph(graph_bytes(name, {})).json["file"], "./" + name);
  }
  fs::current_path(before);
}
