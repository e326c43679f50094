// SPDX-License-Identifier: Apache-2.0
// The memory that checks hand to a text: gaps, orders of dimensions, strides of 0, bytes that no text may write.
#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/emulated_program.h"
#include "tools/execute/launch.h"

namespace kdagen {
namespace {

using testing::EmulatedProgram, testing::Pass;
using Tensors = std::map<std::string, runtime::TensorRef>;

/// Stands in for a compiled text: sees the tensors, and may do what a text must not.
class Recorder : public runtime::Kernel {
 public:
  Recorder(const std::pair<std::string, runtime::Manifest>& emitted, std::function<void(Tensors&)> body)
      : Kernel(emitted.first, emitted.second, {}), body_(std::move(body)) {}
  void launch(const std::vector<runtime::TensorRef>& tensors, const runtime::Problem& problem,
              const runtime::LaunchOptions&) override {
    runtime::bind_tensors(manifest(), problem, tensors);
    Tensors by_name;
    for (const runtime::TensorRef& tensor : tensors) by_name[tensor.name] = tensor;
    body_(by_name);
  }
  void warm_up(int) override {}

 private:
  std::function<void(Tensors&)> body_;
};

float* element(const runtime::TensorRef& tensor, int64_t t, int64_t h, int64_t d) {
  return static_cast<float*>(tensor.data) + t * tensor.strides[1] + h * tensor.strides[2] + d;
}

/// y = x, both [1, 6, 3, 16] of f32; x is `fill` of token, head and feature.
TensorBuffers launched(const std::function<double(int, int, int)>& fill, const CallersMemory& memory,
                       std::function<void(Tensors&)> body) {
  EmulatedProgram program(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) { s.output("y", s.input("x", {t, h, d})); },
      testing::with(testing::float_tensors, {{"dim", "16"}, {"chunk", "8"}}));
  Recorder kernel(program.emit(Pass::fwd), std::move(body));
  TensorBuffers buffers;
  const runtime::Dims shape{1, 6, 3, 16};
  for (const char* name : {"x", "y"}) buffers.emplace(name, runtime::HostTensor(runtime::DType::f32, shape));
  for (int i = 0; i < 6 * 3 * 16; ++i) buffers.at("x").set(i, fill(i / 48, i / 16 % 3, i % 16));
  runtime::Problem problem;
  problem.tokens = 6, problem.heads = 3, problem.sequences = 1;
  launch_on_host(kernel, buffers, problem, on_emulator, {}, memory);
  return buffers;
}

double counted(int t, int h, int d) { return 100 * t + 20 * h + d; }

void copy(Tensors& tensors) {
  for (int t = 0; t < 6; ++t)
    for (int h = 0; h < 3; ++h)
      std::memmove(element(tensors.at("y"), t, h, 0), element(tensors.at("x"), t, h, 0), 16 * sizeof(float));
}

TEST(CallersMemory, NumbersComeAndGoThroughEveryKindOfStrides) {
  std::set<std::string> seen;
  for (uint64_t strides = 0; strides < 24; ++strides)
    for (const bool shared : {false, true}) {
      CallersMemory memory;
      memory.strides = strides, memory.shared = shared;
      const TensorBuffers after = launched(counted, memory, [&](Tensors& tensors) {
        copy(tensors);
        seen.insert(to_string(tensors.at("x").strides));
        EXPECT_EQ(shared, tensors.at("x").data == tensors.at("y").data);
        const int64_t multiple = strides % 2 == 0 ? 4 : 1;
        for (int dim : {1, 2}) EXPECT_EQ(tensors.at("x").strides[dim] % multiple, 0);
      });
      EXPECT_EQ(after.at("y").data, after.at("x").data) << strides;
    }
  EXPECT_GT(seen.size(), 10);
  EXPECT_TRUE(seen.count("[288,48,16,1]"));  // dense
}

TEST(CallersMemory, WhatRepeatsHasTheStrideZero) {
  CallersMemory memory;
  memory.strides = 2;
  const auto by_token = [](int t, int, int d) { return counted(t, 0, d); };
  launched(by_token, memory, [](Tensors& tensors) {
    EXPECT_EQ(tensors.at("x").strides[2], 0);
    EXPECT_NE(tensors.at("x").strides[1], 0);
    EXPECT_NE(tensors.at("y").strides[2], 0);
  });
  launched([](int, int h, int d) { return counted(0, h, d); }, memory,
           [](Tensors& tensors) { EXPECT_EQ(tensors.at("x").strides[1], 0); });
  memory.shared = true;  // then it is written
  launched(by_token, memory, [](Tensors& tensors) { EXPECT_NE(tensors.at("x").strides[2], 0); });
}

TEST(CallersMemory, BytesOfNoElementMustStay) {
  CallersMemory memory;
  memory.strides = 1;
  const auto writing = [&](int64_t from_start) {
    return [from_start](Tensors& tensors) {
      copy(tensors);
      static_cast<float*>(tensors.at("y").data)[from_start] = 1;
    };
  };
  const auto rejected = [&](int64_t from_start) {
    try {
      launched(counted, memory, writing(from_start));
      return false;
    } catch (const CheckError&) {
      return true;
    }
  };
  EXPECT_FALSE(rejected(0));
  int64_t end = 0, gap = 0;
  for (; gap == 0 && memory.strides < 40; memory.strides += gap == 0)
    launched(counted, memory, [&](Tensors& tensors) {
      const runtime::Dims& strides = tensors.at("y").strides;
      end = 5 * strides[1] + 2 * strides[2] + 16;
      std::vector<char> used(size_t(end), 0);
      for (int t = 0; t < 6; ++t)
        for (int h = 0; h < 3; ++h) std::fill_n(used.begin() + t * strides[1] + h * strides[2], 16, 1);
      gap = std::find(used.begin(), used.end(), 0) - used.begin();
      if (gap == end) gap = 0;
    });
  ASSERT_GT(gap, 0);
  EXPECT_TRUE(rejected(gap));
  EXPECT_TRUE(rejected(end));
  memory.base_offset = 4;
  EXPECT_TRUE(rejected(-1));
}

}  // namespace
}  // namespace kdagen
