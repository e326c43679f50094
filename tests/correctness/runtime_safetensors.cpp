// SPDX-License-Identifier: Apache-2.0
#include "runtime/safetensors.h"

#include <fstream>

#include <gtest/gtest.h>

using namespace kdagen::runtime;

namespace {
std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::path(::testing::TempDir()) / ("kdagen_" + name + std::to_string(::getpid()));
}
}  // namespace

TEST(Safetensors, RoundTripOfEveryType) {
  TensorFile file;
  file.metadata["origin"] = "test";
  const DType dtypes[] = {DType::f64, DType::f32, DType::bf16, DType::fp16, DType::i64, DType::i32, DType::i8};
  for (const DType dtype : dtypes) {
    HostTensor tensor(dtype, {2, 3});
    for (int i = 0; i < 6; ++i) tensor.set(i, i - 2);
    file.tensors.emplace(std::string(name_of(dtype)), tensor);
  }
  file.tensors.emplace("scalar", HostTensor(DType::f32, {}));
  file.tensors.emplace("empty", HostTensor(DType::bf16, {0, 4}));
  const auto path = scratch("round_trip");
  write_safetensors(path, file);
  const TensorFile back = read_safetensors(path);
  EXPECT_EQ(back.metadata, file.metadata);
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    const HostTensor& read = back.tensors.at(name);
    EXPECT_EQ(read.dtype, tensor.dtype) << name;
    EXPECT_EQ(read.shape, tensor.shape) << name;
    EXPECT_EQ(read.data, tensor.data) << name;
  }
  EXPECT_EQ(back.tensors.at("bf16").get(5), 3);
  std::filesystem::remove(path);
}

// Bytes written out by hand from the format's description.
TEST(Safetensors, ReadsAFileBuiltByHand) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  std::string bytes{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  bytes += header;
  bytes += std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8);
  const auto path = scratch("by_hand");
  std::ofstream(path, std::ios::binary) << bytes;
  const TensorFile file = read_safetensors(path);
  EXPECT_EQ(file.tensors.at("a").get(0), 1.0);
  EXPECT_EQ(file.tensors.at("a").get(1), -2.0);
  std::filesystem::remove(path);
}
