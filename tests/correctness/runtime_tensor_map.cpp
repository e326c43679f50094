// SPDX-License-Identifier: Apache-2.0
// How tensors are described to the copy engine, where the descriptions lie among the arguments, and outputs that share
// an input's memory.
#include "runtime/tensor_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/sample_call.h"

using namespace kdagen::runtime;
using kdagen::testing::SampleCall;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

/// The sample with maps of x, dy and dtotal in front of its arguments, and y, an output that is x again.
SampleCall staged_call() {
  SampleCall call;
  Manifest& manifest = call.manifest;
  manifest.arguments.insert(manifest.arguments.begin(), {{"x_map", ArgumentKind::tensor_map, "x", "", 16},
                                                         {"dy_map", ArgumentKind::tensor_map, "dy", "", 16},
                                                         {"dtotal_map", ArgumentKind::tensor_map, "dtotal", "", 1}});
  manifest.tensors[0].vector_bytes = 16;
  TensorInfo y = manifest.tensors[0];
  y.name = "y", y.direction = Direction::out, y.role = TensorRole::output, y.may_alias = "x";
  manifest.tensors.push_back(y);
  manifest.arguments.push_back({"y", ArgumentKind::rows, "y", "", 0});
  TensorRef reference = call["x"];
  reference.name = "y";
  call.tensors.push_back(reference);
  return call;
}

TensorBox box_of(const SampleCall& call, std::size_t tensor, int rows) {
  return tensor_box(call.manifest, call.problem, call.bind().tensors[tensor], rows);
}

std::string message(const std::function<void()>& action) {
  try {
    action();
    return "";
  } catch (const kdagen::UsageError& error) {
    return error.what();
  }
}

}  // namespace

TEST(TensorMap, BoxesOfEveryLayout) {
  const SampleCall call = staged_call();  // B=2, T=33, H=3, D=128, C=16, 6 tiles
  const TensorBox x = box_of(call, 0, 16);
  EXPECT_EQ(x.base, reinterpret_cast<std::uintptr_t>(call.tensors[0].data));
  EXPECT_THAT(x.extents, ElementsAre(128, 33, 3, 2));
  EXPECT_THAT(x.strides, ElementsAre(2 * 3 * 128, 2 * 128, 2 * 33 * 3 * 128));
  EXPECT_EQ(x.box_rows, 16u);
  const TensorBox dy = box_of(call, 3, 16);  // rows of a tile, tiles, heads
  EXPECT_THAT(dy.extents, ElementsAre(128, 16, 6, 3));
  EXPECT_THAT(dy.strides, ElementsAre(4 * 128, 4 * 16 * 128, 4 * 6 * 16 * 128));
  const TensorBox dtotal = box_of(call, 4, 1);  // one row a tile
  EXPECT_THAT(dtotal.extents, ElementsAre(128, 1, 6, 3));
  EXPECT_THAT(dtotal.strides, ElementsAre(4 * 128, 4 * 3 * 128, 4 * 128));  // the first counts nothing
}

TEST(TensorMap, MapsComeFirstAndOnlyForAlignedTensors) {
  SampleCall call = staged_call();
  const auto words_of = [&] {
    return build_words(call.manifest, call.problem, call.bind(), workspace_layout(call.manifest, call.problem), nullptr,
                       [](const BoundTensor& tensor, int rows) {
                         TensorMapWords map{};
                         map[0] = reinterpret_cast<std::uint64_t>(tensor.data),
                         map[15] = static_cast<std::uint64_t>(rows);
                         return map;
                       });
  };
  const auto words = words_of();
  EXPECT_EQ(words.size() % 8, 0u);
  EXPECT_EQ(static_cast<int>(words.size()), argument_words(call.manifest));
  EXPECT_EQ(words[0], reinterpret_cast<std::uint64_t>(call["x"].data));
  EXPECT_EQ(words[15], 16u);
  EXPECT_EQ(words[32], reinterpret_cast<std::uint64_t>(call["dtotal"].data));
  EXPECT_EQ(words[47], 1u);
  EXPECT_EQ(words[48], reinterpret_cast<std::uint64_t>(call["x"].data));
  call["dy"].data = static_cast<char*>(call["dy"].data) + 8;  // not a multiple of 16
  EXPECT_FALSE(call.bind().aligned);
  EXPECT_EQ(words_of()[0] | words_of()[16] | words_of()[47], 0u);
}

TEST(TensorMap, RowStridesOfMoreThan32BitsTakeTheOtherEntry) {
  SampleCall call = staged_call();
  call.problem = {1, 33, 1, 1};
  for (TensorRef& tensor : call.tensors) {
    tensor.shape = tensor_shape(call.manifest, *call.manifest.find_tensor(tensor.name), call.problem);
    tensor.strides = contiguous_strides(tensor.shape);
  }
  EXPECT_TRUE(call.bind().aligned);
  call["dx"].strides[2] = std::int64_t{1} << 32;
  EXPECT_FALSE(call.bind().aligned);
}

// T050: a head that all read, or a token that all are, is a view with stride 0.
TEST(TensorMap, ViewsThatRepeatTheirElementsTakeTheOtherEntry) {
  EXPECT_TRUE(staged_call().bind().aligned);
  for (const std::size_t dimension : {0, 1, 2})
    for (const std::int64_t stride : {std::int64_t{0}, std::int64_t{1} << 40}) {
      SampleCall call = staged_call();
      call.remove("y");
      std::erase_if(call.manifest.tensors, [](const TensorInfo& info) { return info.name == "y"; });
      call["x"].strides[dimension] = stride;
      EXPECT_FALSE(call.bind().aligned) << dimension;
    }
  SampleCall plain;  // without maps any stride will do
  plain["x"].strides[2] = 0;
  EXPECT_TRUE(plain.bind().aligned);
}

TEST(TensorMap, RulesNameTheArgument) {
  const auto refused = [](const auto& change) {
    SampleCall call = staged_call();
    change(call.manifest);
    return message([&] { validate(call.manifest); });
  };
  EXPECT_EQ(refused([](Manifest&) {}), "");
  EXPECT_THAT(refused([](Manifest& m) { std::swap(m.arguments[2], m.arguments[3]); }),
              HasSubstr("tensor maps come before"));
  EXPECT_THAT(refused([](Manifest& m) { m.arguments[0].tensor = "beta"; }), HasSubstr("arguments[0].tensor: \"beta\""));
  EXPECT_THAT(refused([](Manifest& m) { m.arguments[0].tensor = "weight"; }),
              HasSubstr("arguments[0].tensor: \"weight\""));
  EXPECT_THAT(refused([](Manifest& m) { m.tensors[0].vector_bytes = 8; }), HasSubstr("no multiples of 16 bytes"));
  EXPECT_THAT(refused([](Manifest& m) { m.arguments[1].rows = 257; }), HasSubstr("arguments[1].rows"));
  EXPECT_THAT(refused([](Manifest& m) { m.tensors.back().may_alias = "dy"; }),
              HasSubstr("may_alias: \"dy\" is no input of the same"));
}

TEST(TensorMap, ManifestsWithMapsAndAliasesAreReadAsWritten) {
  const SampleCall call = staged_call();
  const std::string text = dump_manifest(call.manifest);
  const Manifest again = load_manifest(text);
  EXPECT_EQ(dump_manifest(again), text);
  EXPECT_EQ(again.arguments[2].rows, 1);
  EXPECT_EQ(again.tensors.back().may_alias, "x");
}

// T061
TEST(Aliasing, AnOutputMayBeItsInputElementByElement) {
  SampleCall call = staged_call();
  EXPECT_EQ(call.bind().tensors.back().data, call["x"].data);
  call["y"].data = static_cast<char*>(call["y"].data) + 16;
  EXPECT_THAT(message([&] { call.bind(); }), HasSubstr("\"y\" of norm_bwd is written, but shares memory with \"x\""));
  call["y"].data = call["x"].data;
  std::swap(call["y"].strides[1], call["y"].strides[2]);
  EXPECT_NE(message([&] { call.bind(); }), "");
  call = staged_call();
  call["dx"].data = call["x"].data;  // has no such permission
  EXPECT_THAT(message([&] { call.bind(); }), HasSubstr("shares memory with"));
}
