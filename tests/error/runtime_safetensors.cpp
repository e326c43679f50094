// SPDX-License-Identifier: Apache-2.0
#include "runtime/safetensors.h"

#include <sys/stat.h>

#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/scratch.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

class SafetensorsErrors : public ::testing::Test {
 protected:
  std::string refusal() const {
    try {
      read_safetensors(path);
      return "";
    } catch (const kdagen::UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
      return error.what();
    }
  }
  std::string refusal_of(const std::string& bytes) const {
    spill(path, bytes);
    return refusal();
  }
  std::string refusal_of(const std::string& header, std::size_t data_bytes) const {
    std::uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return refusal_of(bytes + header + std::string(data_bytes, 'x'));
  }

  Scratch place = scratch();
  std::filesystem::path path = place.path() / "file.safetensors";
};

}  // namespace

TEST_F(SafetensorsErrors, Files) {
  EXPECT_THAT(refusal(), HasSubstr("cannot be read"));
  std::filesystem::create_directory(path);
  EXPECT_THAT(refusal(), HasSubstr("not a regular file"));
  std::filesystem::remove(path);
  ::mkfifo(path.c_str(), 0600);  // must not wait for a writer
  EXPECT_THAT(refusal(), HasSubstr("not a regular file"));
  std::filesystem::remove(path);
  EXPECT_NE(refusal_of(""), "");
  EXPECT_NE(refusal_of("1234567"), "");
  EXPECT_THAT(refusal_of(std::string(8, '\xff')), HasSubstr("header claims"));
  EXPECT_THAT(refusal_of(std::string("\x40\0\0\0\0\0\0\0{}", 10)), HasSubstr("truncated"));
}

TEST_F(SafetensorsErrors, Headers) {
  EXPECT_EQ(refusal_of("{}", 0), "");
  EXPECT_EQ(refusal_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   )", 8), "");
  EXPECT_NE(refusal_of("", 0), "");
  EXPECT_NE(refusal_of("[]", 0), "");
  EXPECT_THAT(refusal_of("{", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal_of("{}x", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(
      refusal_of(
          R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
          4),
      HasSubstr("\"a\" appears twice"));
  EXPECT_THAT(refusal_of(R"({"a":{"dtype":"F8_E4M3","shape":[],"data_offsets":[0,1]}})", 1),
              AllOf(HasSubstr("\"a\""), HasSubstr("F8_E4M3")));
  EXPECT_THAT(refusal_of(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"more":1}})", 4), HasSubstr("more"));
  EXPECT_THAT(refusal_of(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"__metadata__":{"k":1}})", 4),
              HasSubstr("__metadata__"));
}

TEST_F(SafetensorsErrors, Sizes) {
  const auto one = [&](const char* shape, const char* offsets, std::size_t data) {
    return refusal_of(std::string(R"({"a":{"dtype":"F32","shape":)") + shape + R"(,"data_offsets":)" + offsets + "}}",
                      data);
  };
  EXPECT_EQ(one("[3]", "[0,12]", 12), "");
  EXPECT_THAT(one("[3]", "[0,8]", 8), AllOf(HasSubstr("\"a\""), HasSubstr("12")));
  EXPECT_THAT(one("[3]", "[0,12]", 11), HasSubstr("\"a\""));
  EXPECT_THAT(one("[3]", "[0,12]", 13), HasSubstr("belong to no tensor"));
  EXPECT_THAT(one("[3]", "[4,16]", 16), HasSubstr("gap"));
  EXPECT_THAT(one("[3]", "[12,0]", 12), HasSubstr("\"a\""));
  EXPECT_THAT(one("[3]", "[0]", 12), HasSubstr("[begin, end]"));
  EXPECT_THAT(one("[-3]", "[0,12]", 12), HasSubstr("-3"));
  EXPECT_THAT(one("[3.0]", "[0,12]", 12), HasSubstr("integer"));
  EXPECT_THAT(one("[4294967296,4294967296]", "[0,12]", 12), HasSubstr("63 bits"));
  EXPECT_THAT(one("[4611686018427387904]", "[0,0]", 0), HasSubstr("63 bits"));
  EXPECT_THAT(one("[1,1,1,1,1,1,1,1,3]", "[0,12]", 12), HasSubstr("dimensions"));
  EXPECT_THAT(
      refusal_of(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
          12),
      AllOf(HasSubstr("\"b\""), HasSubstr("overlap")));
}

TEST_F(SafetensorsErrors, RandomDamageIsRefusedOrHarmless) {
  TensorFile file;
  file.tensors.emplace("a", HostTensor(DType::f32, {2, 3}));
  file.tensors.emplace("b", HostTensor(DType::bf16, {5}));
  write_safetensors(path, file);
  const std::string good = slurp(path);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    if (i % 4 == 0) bytes.resize(random() % bytes.size());
    EXPECT_NO_THROW(refusal_of(bytes));
  }
}

TEST_F(SafetensorsErrors, Writing) {
  TensorFile file;
  file.tensors.emplace("a", HostTensor(DType::f32, {2}));
  EXPECT_THROW(write_safetensors(place.path() / "missing" / "file", file), kdagen::UsageError);
  spill(path, "old");
  file.tensors.at("a").data.resize(3);
  EXPECT_THROW(write_safetensors(path, file), kdagen::UsageError);
  EXPECT_EQ(slurp(path), "old");
  file.tensors.at("a").data.resize(8);
  std::filesystem::create_directory(place.path() / "folder");
  EXPECT_THROW(write_safetensors(place.path() / "folder", file), kdagen::UsageError);
  int files = 0;
  for ([[maybe_unused]] const auto& item : std::filesystem::directory_iterator(place.path())) ++files;
  EXPECT_EQ(files, 2) << "a temporary stays behind";
  write_safetensors(path, file);
  EXPECT_EQ(read_safetensors(path).tensors.size(), 1u);
}
