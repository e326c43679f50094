// SPDX-License-Identifier: Apache-2.0
#include "runtime/manifest.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/manifests.h"

using namespace kdagen::runtime;
using kdagen::testing::sample_manifest_text;
using nlohmann::json;
using ::testing::HasSubstr;

namespace {

/// The message of the UsageError; empty if the text loads.
std::string refusal(const std::string& text) {
  try {
    load_manifest(text);
    return "";
  } catch (const kdagen::UsageError& error) {
    return error.what();
  }
}

std::string refusal_with(const char* pointer, const json& value) {
  json manifest = json::parse(sample_manifest_text);
  manifest[json::json_pointer(pointer)] = value;
  return refusal(manifest.dump());
}

void paths(const json& value, const json::json_pointer& at, std::vector<json::json_pointer>& out) {
  out.push_back(at);
  if (value.is_object())
    for (const auto& member : value.items()) paths(member.value(), at / member.key(), out);
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i) paths(value[i], at / i, out);
}

}  // namespace

TEST(ManifestErrors, NameTheField) {
  EXPECT_THAT(refusal(R"({"schema":2})"), HasSubstr("manifest.schema"));
  EXPECT_THAT(refusal_with("/schema", 2), HasSubstr("schema 2 is unknown"));
  EXPECT_THAT(refusal_with("/chunk", "16"), HasSubstr("manifest.chunk: expected an integer"));
  EXPECT_THAT(refusal_with("/chunk", 16.0), HasSubstr("manifest.chunk"));
  EXPECT_THAT(refusal_with("/dim", 0), HasSubstr("manifest.dim"));
  EXPECT_THAT(refusal_with("/dim", 18446744073709551615ull), HasSubstr("manifest.dim"));
  EXPECT_THAT(refusal_with("/pass", "sideways"), HasSubstr("manifest.pass"));
  EXPECT_THAT(refusal_with("/surprise", 1), HasSubstr("surprise"));
  EXPECT_THAT(refusal_with("/tensors/2/surprise", 1), HasSubstr("manifest.tensors[2]"));
  EXPECT_THAT(refusal_with("/tensors/0/dtype", "half"), HasSubstr("manifest.tensors[0].dtype"));
  EXPECT_THAT(refusal_with("/tensors/0/axes/1", "z"), HasSubstr("manifest.tensors[0].axes"));
  EXPECT_THAT(refusal_with("/tensors/0/axes/1", "t"), HasSubstr("twice"));
  EXPECT_THAT(refusal_with("/tensors/1/name", "x"), HasSubstr("manifest.tensors[1].name"));
  EXPECT_THAT(refusal_with("/tensors/0/vector_bytes", 6), HasSubstr("vector_bytes"));
  EXPECT_THAT(refusal_with("/tensors/0/direction", "out"), HasSubstr("manifest.tensors[0].direction"));
  EXPECT_THAT(refusal_with("/tensors/2/layout", "bthd"), HasSubstr("manifest.tensors[2].layout"));
  EXPECT_THAT(refusal_with("/workspace/0/elements", json::array()), HasSubstr("manifest.workspace[0].elements"));
  EXPECT_THAT(refusal_with("/workspace/0/elements/0/0", "tile_blocks"), HasSubstr("manifest.workspace[0].elements"));
  EXPECT_THAT(refusal_with("/arguments/0/kind", "tile"), HasSubstr("expected \"rows\""));
  EXPECT_THAT(refusal_with("/arguments/3/kind", "rows"), HasSubstr("expected \"tile\""));
  EXPECT_THAT(refusal_with("/arguments/0/tensor", "nobody"), HasSubstr("manifest.arguments[0].tensor"));
  EXPECT_THAT(refusal_with("/arguments/7/name", "nothing"), HasSubstr("no workspace"));
  EXPECT_THAT(refusal_with("/arguments/10/size", "weight"), HasSubstr("manifest.arguments[10].size"));
  EXPECT_THAT(refusal_with("/launches/2/block", 2048), HasSubstr("manifest.launches[2].block"));
  EXPECT_THAT(refusal_with("/launches/2/entry", "a b"), HasSubstr("C identifier"));
  EXPECT_THAT(refusal_with("/launches/2/grid", json::array()), HasSubstr("manifest.launches[2].grid"));
  EXPECT_THAT(refusal_with("/launches", json::array()), HasSubstr("manifest.launches"));
}

TEST(ManifestErrors, Anchors) {
  json manifest = json::parse(sample_manifest_text);
  json anchors = manifest["tensors"][5];  // dx, an output with rows
  anchors["name"] = "x_anchor", anchors["role"] = "output", anchors["dtype"] = "i32", anchors["subchunk_rows"] = 16;
  manifest["tensors"].push_back(anchors);
  manifest["tensors"][5]["anchor_tensor"] = "x_anchor";
  manifest["tensors"][5]["anchor_sign"] = -1;
  manifest["arguments"].push_back({{"name", "x_anchor"}, {"kind", "tile"}, {"tensor", "x_anchor"}});
  ASSERT_EQ(refusal(manifest.dump()), "");
  const Manifest read = load_manifest(manifest.dump());
  EXPECT_EQ(read.tensors[5].anchor_tensor, "x_anchor");
  EXPECT_EQ(read.tensors[5].anchor_sign, -1);
  EXPECT_EQ(read.tensors.back().subchunk_rows, 16);
  EXPECT_EQ(dump_manifest(load_manifest(dump_manifest(read))), dump_manifest(read));
  auto with = [&](const char* pointer, const json& value) {
    json changed = manifest;
    changed[json::json_pointer(pointer)] = value;
    return refusal(changed.dump());
  };
  EXPECT_THAT(with("/tensors/5/anchor_tensor", "x"), HasSubstr("no i32 tensor with a row of each sub-chunk"));
  EXPECT_THAT(with("/tensors/5/anchor_sign", 0), HasSubstr("expected 1 or -1"));
  EXPECT_THAT(with("/tensors/7/dtype", "f32"), HasSubstr("no i32 tensor"));
  EXPECT_THAT(with("/tensors/7/subchunk_rows", 0), HasSubstr("subchunk_rows"));
  EXPECT_THAT(with("/tensors/0/subchunk_rows", 16), HasSubstr("only a written tensor with rows"));
  EXPECT_THAT(with("/arguments/0/kind", "tile"), HasSubstr("expected \"rows\""));
}

TEST(ManifestErrors, TextThatIsNoJson) {
  EXPECT_THAT(refusal(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(std::string(100000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(refusal("{\"schema\":1,\"schema\":1}"), HasSubstr("appears twice"));
  EXPECT_THAT(refusal("{\"kernel\":\"\xff\"}"), HasSubstr("not valid JSON"));
  EXPECT_NE(refusal("[]"), "");
  EXPECT_NE(refusal("null"), "");
}

TEST(ManifestErrors, EveryFieldIsNeeded) {
  const json manifest = json::parse(sample_manifest_text);
  for (const auto& member : manifest.items()) {
    json without = manifest;
    without.erase(member.key());
    EXPECT_THAT(refusal(without.dump()), HasSubstr(member.key()));
  }
}

// Whatever stands in the place of whatever field, the answer is a manifest or a UsageError.
TEST(ManifestErrors, AnyValueInAnyPlace) {
  const json manifest = json::parse(sample_manifest_text);
  std::vector<json::json_pointer> all;
  paths(manifest, json::json_pointer(), all);
  const json values[] = {nullptr,       true,           -1,        0, 1e300, 9223372036854775807ll, "", "x",
                         json::array(), json::object(), {{"x", 1}}};
  for (const auto& path : all)
    for (const json& value : values) {
      json changed = manifest;
      changed[path] = value;
      EXPECT_NO_THROW(refusal(changed.dump())) << path.to_string() << " = " << value;
    }
}

TEST(ManifestErrors, RandomBytes) {
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text = sample_manifest_text;
    for (int n = 0; n < 3; ++n) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, random() % 40);
      else
        text[at] = static_cast<char>(random());
    }
    EXPECT_NO_THROW(refusal(text));
  }
}
