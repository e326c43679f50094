// SPDX-License-Identifier: Apache-2.0
// The generator of random specs: what it prints is what it builds, it reaches every expression and every rewrite, and a
// spec that fails becomes a small one.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "codegen/pipeline.h"
#include "tools/fuzz/features.h"
#include "tools/fuzz/schedules.h"
#include "tools/fuzz/sketch.h"
#include "tools/spec_source.h"

namespace kdagen::fuzz {
namespace {

Sketch sketch_of_seed(uint64_t seed) { return sketch_of(recipe_of(seed).value()); }

/// The graph without the places in the source.
nlohmann::json meaning(const std::string& graph) {
  nlohmann::json json = nlohmann::json::parse(graph);
  json.erase("file");
  for (const char* list : {"nodes", "outputs"})
    for (nlohmann::json& item : json[list])
      for (const char* place : {"file", "line"}) item.erase(place);
  return json;
}

TEST(RandomSpecs, TheSameSeedDrawsTheSameSpec) {
  std::set<std::string> texts;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const std::string text = sketch_of_seed(seed).cpp();
    EXPECT_EQ(text, sketch_of_seed(seed).cpp());
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), 50);
}

TEST(RandomSpecs, WhatIsPrintedIsWhatIsBuilt) {
  std::string name = (std::filesystem::temp_directory_path() / "random_specs.XXXXXX").string();
  ASSERT_TRUE(mkdtemp(name.data()));
  const std::filesystem::path folder = name;
  for (uint64_t seed : {3, 14, 15}) {
    const Sketch sketch = sketch_of_seed(seed);
    std::ofstream(folder / "fuzz.cpp") << sketch.cpp();
    std::map<std::string, std::string> options = sketch.options;
    take_compile_options(options);
    EXPECT_EQ(meaning(graph_bytes((folder / "fuzz.cpp").string(), options)), meaning(sketch.graph())) << sketch.cpp();
  }
  std::filesystem::remove_all(folder);
}

/// Every recipe is a spec; what the compiler refuses is counted.
TEST(RandomSpecs, ReachEveryExpressionAndEveryRewrite) {
  std::map<std::string, int> missing_forms, firings;
  for (const Form& form : forms()) missing_forms[std::string(form.text)] = 0;
  std::map<std::string, int> option_values;
  int refused = 0;
  constexpr int specs = 800;
  for (uint64_t seed = 1; seed <= specs; ++seed) {
    const Sketch sketch = sketch_of_seed(seed);
    for (const ValueLine& line : sketch.values) missing_forms.erase(std::string(forms()[line.form].text));
    for (const auto& [key, value] : sketch.options) ++option_values[key == "save" ? key : key + "=" + value];
    std::map<std::string, std::string> options = sketch.options;
    const CompileOptions compile_options = take_compile_options(options);
    try {
      const std::string graph = sketch.graph();
      for (Direction direction : {Direction::fwd, Direction::bwd}) {
        Compilation compilation(graph, direction, compile_options);
        compilation.require_ranges();
        for (const auto& entry : compilation.rewrites().entries) firings[entry.name] += entry.firings;
      }
    } catch (const Error& error) {
      ++refused;
    }
  }
  EXPECT_THAT(missing_forms, testing::IsEmpty());
  EXPECT_LT(refused, specs / 10);
  EXPECT_FALSE(firings.empty());
  for (const auto& [rewrite, count] : firings) EXPECT_GT(count, 2) << rewrite;
  EXPECT_GT(firings["factored-decay"], 40);
  for (const char* option :
       {"dtype=bf16", "dtype=fp16", "dtype=f32", "out=fp16", "grads=fp16", "layout=htd", "upstream=fp16row",
        "upstream_layout=tile", "operands=exact", "operands=rounded", "scan=fixed", "scan=float", "save"})
    EXPECT_GT(option_values[option], 0) << option;
}

/// What a campaign claims to cover: every op of the graph, tensors of every kind, and the ways values are used.
TEST(RandomSpecs, ReachEveryOpAndEveryUse) {
  std::map<std::string, int> counts;
  for (uint64_t seed = 1; seed <= 600; ++seed)
    for (const std::string& feature : features_of(sketch_of_seed(seed))) ++counts[feature];
  for (const char* op : {"input",
                         "param",
                         "constant",
                         "neg",
                         "exp",
                         "exp2",
                         "log",
                         "log1p",
                         "sqrt",
                         "rsqrt",
                         "sigmoid",
                         "softplus",
                         "tanh",
                         "relu",
                         "abs",
                         "add",
                         "sub",
                         "mul",
                         "div",
                         "pow",
                         "min",
                         "max",
                         "less",
                         "less_equal",
                         "equal",
                         "select",
                         "clamp",
                         "round",
                         "detach",
                         "cumsum",
                         "cumsum, reverse",
                         "cumsum, exclusive",
                         "cumsum, exclusive, reverse",
                         "total",
                         "last",
                         "shift",
                         "index",
                         "isnan",
                         "sum over d",
                         "sum over t",
                         "sum over t, d",
                         "max_reduce over d",
                         "max_reduce over t",
                         "max_reduce over t, d"})
    EXPECT_GT(counts[std::string("op ") + op], 0) << op;
  for (const char* feature : {"input [t, h, d]",
                              "input [t, h]",
                              "param [h, d]",
                              "param [h]",
                              "param [d]",
                              "param []",
                              "input f32",
                              "input bf16",
                              "input fp16",
                              "optional input",
                              "optional param",
                              "optional tensors left out",
                              "optional tensors given",
                              "bounded input",
                              "bounded param",
                              "output [t, h, d]",
                              "output [t, h]",
                              "output [h, d]",
                              "output [h]",
                              "output f32",
                              "output bf16",
                              "output fp16",
                              "an output with a cotangent unit",
                              "an output that repeats an input",
                              "two outputs of one value",
                              "value used several times",
                              "input used several times",
                              "param used several times",
                              "several scans",
                              "scans in both directions",
                              "saved values",
                              "packed sequences",
                              "batch rows of equal length",
                              "an empty sequence",
                              "rows after the last sequence"})
    EXPECT_GT(counts[feature], 0) << feature;
}

/// The same of what texts are made and called with; the shipped sizes are there, but rare.
TEST(RandomSpecs, ReachEverySizeAndEveryMemory) {
  std::map<std::string, int> counts;
  constexpr int specs = 600;
  int large = 0;
  for (uint64_t seed = 1; seed <= specs; ++seed) {
    const Sketch sketch = sketch_of_seed(seed);
    large += sketch.shape.dim > 100 || sketch.shape.chunk > 32;
    for (const std::string& feature : features_of(sketch)) ++counts[feature];
  }
  EXPECT_GT(large, specs / 20);
  EXPECT_LT(large, specs / 5);
  for (const char* feature : {"chunk=16",
                              "chunk=32",
                              "chunk=64",
                              "chunk=128",
                              "dim=64",
                              "dim=128",
                              "dim=256",
                              "an anchored output, static",
                              "an anchored output, subchunk",
                              "upstream.NAME=f32",
                              "upstream.NAME=bf16",
                              "upstream.NAME=fp16row",
                              "out.NAME=f32",
                              "out.NAME=bf16",
                              "dtype.NAME=f32",
                              "dtype.NAME=bf16",
                              "dtype.NAME=fp16",
                              "gaps of 16 bytes",
                              "gaps of elements",
                              "strides of 0",
                              "tensors off their alignment",
                              "outputs in the memory of inputs",
                              "64-bit offsets"})
    EXPECT_GT(counts[feature], 0) << feature;
}

/// Wishes count where they fit a pass.
TEST(RandomSpecs, ReachEverySchedule) {
  std::set<std::string> missing = {"baseline",          "default",           "threads=32",        "threads=64",
                                   "threads=128",       "threads=256",       "threads=512",       "threads=1024",
                                   "min_blocks=1",      "min_blocks=2",      "min_blocks=4",      "min_blocks=8",
                                   "stages=0",          "stages=1",          "stages=2",          "stages=3",
                                   "stages=4",          "heads_fastest=0",   "heads_fastest=1",   "tiles_per_block=1",
                                   "tiles_per_block=2", "tiles_per_block=4", "tiles_per_block=8", "tiles_per_block=24"};
  for (uint64_t seed = 1; seed <= 600 && !missing.empty(); ++seed) {
    const Sketch sketch = sketch_of_seed(seed);
    std::map<std::string, std::string> options = sketch.options;
    const CompileOptions compile_options = take_compile_options(options);
    for (Direction direction : {Direction::fwd, Direction::bwd}) {
      try {
        Compilation compilation(sketch.graph(), direction, compile_options);
        for (const std::string& key : keys_of(fitting_schedule(compilation, "sm_90", sketch.schedule)))
          missing.erase(key);
      } catch (const SpecError&) {  // refused
      }
    }
  }
  EXPECT_THAT(missing, testing::IsEmpty());
}

TEST(RandomSpecs, AFailureBecomesASmallSpec) {
  auto holds_the_fault = [](const Sketch& sketch) {
    for (const ValueLine& line : sketch.values)
      if (forms()[line.form].text.find(".exclusive = true, .reverse = true") != std::string_view::npos) return true;
    return false;
  };
  int found = 0;
  for (uint64_t seed = 1; seed <= 400 && found < 3; ++seed) {
    const rc::Shrinkable<Recipe> drawn = recipe_of(seed);
    if (!holds_the_fault(sketch_of(drawn.value()))) continue;
    ++found;
    const Sketch small = sketch_of(rc::shrinkable::findLocalMin(drawn, [&](const Recipe& recipe) {
                                     return holds_the_fault(sketch_of(recipe));
                                   }).first);
    EXPECT_EQ(small.values.size(), 1) << small.cpp();
    EXPECT_EQ(small.tensors.size(), 1) << small.cpp();
    EXPECT_EQ(small.outputs.size(), 1) << small.cpp();
    EXPECT_EQ(small.shape.dim, 16);
    EXPECT_EQ(small.shape.chunk, 8);
    EXPECT_THAT(small.schedule, testing::IsEmpty());
    EXPECT_EQ(small.memory.strides, 0);
  }
  EXPECT_EQ(found, 3);
}

}  // namespace
}  // namespace kdagen::fuzz
