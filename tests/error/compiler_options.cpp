// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/options.h"
#include "kdagen/error.h"

namespace kdagen {
namespace {
using ::testing::HasSubstr;

std::string refusal(const std::string& key, const std::string& value) {
  std::map<std::string, std::string> options = {{key, value}};
  try {
    take_compile_options(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(CompileOptions, NameTheOptionAndWhatPasses) {
  for (auto key : {"grads", "layout", "upstream", "upstream_layout", "operands", "scan", "arithmetic", "upstream.y"})
    EXPECT_THAT(refusal(key, "wrong"), HasSubstr(std::string("option ") + key + "=wrong: pass one of ")) << key;
  EXPECT_THAT(refusal("upstream", "fp16"), HasSubstr("f32, bf16, fp16row"));
  EXPECT_THAT(refusal("save", "a,,b"), HasSubstr("empty name"));
  EXPECT_THAT(refusal("save", "a,b,a"), HasSubstr("named twice"));
  EXPECT_THAT(refusal("upstream.", "bf16"), HasSubstr("name an output"));
  EXPECT_THAT(refusal("schedule", ""), HasSubstr("default, baseline, tuned"));
}

TEST(CompileOptions, LeaveTheSpecsOwn) {
  std::map<std::string, std::string> options = {
      {"grads", "f32"}, {"eps", "0"}, {"upstream.y", "bf16"}, {"save", "a,b"}};
  CompileOptions result = take_compile_options(options);
  EXPECT_EQ(options, (std::map<std::string, std::string>{{"eps", "0"}}));
  EXPECT_EQ(result.grads, "f32");
  EXPECT_EQ(result.upstream_for("y"), Upstream::bf16);
  EXPECT_EQ(result.upstream_for("z"), Upstream::f32);
  EXPECT_EQ(result.save, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(result.resolved().at("save"), "a,b");
}

}  // namespace
}  // namespace kdagen
