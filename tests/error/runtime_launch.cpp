// SPDX-License-Identifier: Apache-2.0
// Every way in which a call can be wrong is refused with the tensor's name, before any memory is touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/sample_call.h"

using namespace kdagen::runtime;
using kdagen::testing::SampleCall;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

std::string refusal(const SampleCall& call) {
  try {
    const Binding binding = call.bind();
    launch_steps(call.manifest, call.problem, binding);
    return "";
  } catch (const kdagen::UsageError& error) {
    return error.what();
  }
}

template <class Change>
std::string refusal_after(Change change) {
  SampleCall call;
  change(call);
  return refusal(call);
}

char* moved(void* pointer, std::ptrdiff_t bytes) { return static_cast<char*>(pointer) + bytes; }

const std::int32_t offsets[4] = {};

void pack(SampleCall& call) {
  call.problem.cu_seqlens = offsets;
  call.problem.offsets = OffsetType::i32;
}

}  // namespace

TEST(LaunchErrors, TheUnchangedCallIsRight) { EXPECT_EQ(refusal(SampleCall()), ""); }

// T022 T079
TEST(LaunchErrors, Tensors) {
  EXPECT_THAT(refusal_after([](auto& c) { c.remove("weight"); }),
              AllOf(HasSubstr("\"weight\""), HasSubstr("missing"), HasSubstr("[H,D]")));
  EXPECT_THAT(refusal_after([](auto& c) { c.remove("dx"); }), HasSubstr("\"dx\""));
  EXPECT_EQ(refusal_after([](auto& c) { c.remove("beta"); }), "");
  EXPECT_THAT(refusal_after([](auto& c) { c["beta"].name = "gamma"; }),
              AllOf(HasSubstr("\"gamma\""), HasSubstr("weight")));
  EXPECT_THAT(refusal_after([](auto& c) { c.tensors.push_back(c["x"]); }), HasSubstr("twice"));
  EXPECT_THAT(refusal_after([](auto& c) { c["x"].dtype = DType::fp16; }),
              AllOf(HasSubstr("\"x\""), HasSubstr("fp16"), HasSubstr("bf16")));
  EXPECT_THAT(refusal_after([](auto& c) { c["x"].data = nullptr; }), AllOf(HasSubstr("\"x\""), HasSubstr("null")));
  EXPECT_THAT(refusal_after([](auto& c) { c["x"].data = moved(c["x"].data, 1); }),
              AllOf(HasSubstr("\"x\""), HasSubstr("aligned")));
  EXPECT_THAT(refusal_after([](auto& c) { c["dy"].device_ordinal = 1; }),
              AllOf(HasSubstr("\"dy\""), HasSubstr("device 1")));
  EXPECT_THAT(refusal_after([](auto& c) { c["dy"].device_ordinal = -1; }), HasSubstr("host"));
}

// T022 T045
TEST(LaunchErrors, ShapesAndStrides) {
  EXPECT_THAT(refusal_after([](auto& c) { c["x"].shape[1] = 34; }),
              AllOf(HasSubstr("[2,34,3,128]"), HasSubstr("[B,T,H,D]"), HasSubstr("[2,33,3,128]")));
  EXPECT_THAT(refusal_after([](auto& c) { c["x"].shape = {66, 3, 128}; }), HasSubstr("\"x\""));
  EXPECT_THAT(refusal_after([](auto& c) { c["dy"].shape[1] = 5; }), HasSubstr("[H,tiles,C,D]"));
  EXPECT_THAT(refusal_after([](auto& c) { c["x"].strides = {1, 1}; }), HasSubstr("2 strides"));
  EXPECT_THAT(refusal_after([](auto& c) { c["x"].strides[3] = 2; }), AllOf(HasSubstr("\"x\""), HasSubstr("innermost")));
  EXPECT_THAT(refusal_after([](auto& c) { c["dy"].strides[3] = 2; }), HasSubstr("innermost"));
  EXPECT_THAT(refusal_after([](auto& c) { c["weight"].strides[0] = 256; }),
              AllOf(HasSubstr("\"weight\""), HasSubstr("contiguous")));
  EXPECT_THAT(refusal_after([](auto& c) { c["x"].strides[1] = -384; }), HasSubstr("negative"));
  EXPECT_THAT(refusal_after([](auto& c) { c["dx"].strides[1] = 0; }),
              AllOf(HasSubstr("\"dx\""), HasSubstr("one address")));
  EXPECT_EQ(refusal_after([](auto& c) { c["x"].strides[2] = 0; }), "");  // an expanded input
  EXPECT_THAT(refusal_after([](auto& c) { c["x"].strides[0] = std::int64_t{1} << 62; }), HasSubstr("63 bits"));
  EXPECT_THAT(refusal_after([](auto& c) { c["x"].data = reinterpret_cast<void*>(~std::uintptr_t{0} - 63); }),
              HasSubstr("address space"));
}

TEST(LaunchErrors, Sizes) {
  EXPECT_THAT(refusal_after([](auto& c) { c.problem.tokens = -1; }), AllOf(HasSubstr("tokens"), HasSubstr("negative")));
  EXPECT_THAT(refusal_after([](auto& c) { c.problem.heads = -5; }), HasSubstr("heads"));
  EXPECT_THAT(refusal_after([](auto& c) { c.problem.batch = -5; }), HasSubstr("batch"));
  EXPECT_THAT(refusal_after([](auto& c) { c.problem.sequences = -5; }), HasSubstr("sequences"));
  EXPECT_THAT(refusal_after([](auto& c) { c.problem.tokens = c.problem.batch = std::int64_t{1} << 40; }),
              HasSubstr("63 bits"));
  EXPECT_THAT(refusal_after([](auto& c) { c.problem.tokens = std::numeric_limits<std::int64_t>::max(); }),
              HasSubstr("63 bits"));
}

// T036
TEST(LaunchErrors, Offsets) {
  EXPECT_THAT(refusal_after(pack), AllOf(HasSubstr("cu_seqlens"), HasSubstr("batch 1")));
  EXPECT_THAT(refusal_after([](auto& c) { c.problem.cu_seqlens = offsets; }), HasSubstr("dtype"));
  const auto single = [](auto& c) {
    c = SampleCall();
    pack(c);
    c.problem.batch = 1;
  };
  EXPECT_THAT(refusal_after([&](auto& c) {
                single(c);
                c.problem.cu_seqlens = nullptr;
              }),
              HasSubstr("cu_seqlens is null"));
  EXPECT_THAT(refusal_after([&](auto& c) {
                single(c);
                c.problem.cu_seqlens = moved(const_cast<std::int32_t*>(offsets), 2);
              }),
              HasSubstr("aligned"));
  EXPECT_THAT(refusal_after([&](auto& c) {
                single(c);
                std::erase_if(c.manifest.arguments, [](const auto& a) { return a.kind == ArgumentKind::cu_seqlens; });
              }),
              HasSubstr("fixed length"));
}

// T061
TEST(LaunchErrors, Aliasing) {
  EXPECT_THAT(refusal_after([](auto& c) { c["dx"].data = c["x"].data; }),
              AllOf(HasSubstr("\"dx\""), HasSubstr("\"x\"")));
  EXPECT_THAT(refusal_after([](auto& c) { c["dweight"].data = moved(c["dx"].data, 64); }), HasSubstr("shares memory"));
  EXPECT_EQ(refusal_after([](auto& c) { c["dtotal"].data = c["dy"].data; }), "");  // inputs may share
  SampleCall call;
  const Binding binding = call.bind();
  const WorkspaceLayout layout = workspace_layout(call.manifest, call.problem);
  void* const free_place = reinterpret_cast<void*>(std::uintptr_t{1} << 40);
  EXPECT_NO_THROW(check_workspace(binding, layout, free_place, layout.bytes));
  EXPECT_THROW(check_workspace(binding, layout, free_place, layout.bytes - 1), kdagen::UsageError);
  EXPECT_THROW(check_workspace(binding, layout, moved(free_place, 128), layout.bytes), kdagen::UsageError);
  EXPECT_THROW(check_workspace(binding, layout, call["x"].data, layout.bytes), kdagen::UsageError);
  EXPECT_THROW(check_workspace(binding, layout, nullptr, layout.bytes), kdagen::UsageError);
}

TEST(LaunchErrors, GridsBeyondTheHardware) {
  SampleCall call;
  const Binding binding = call.bind();
  call.manifest.launches[2].grid = {{"heads"}, {"tiles"}};
  call.problem.tokens = 16 * 65536;
  try {
    launch_steps(call.manifest, call.problem, binding);
    FAIL();
  } catch (const kdagen::UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("65535"), HasSubstr("norm_bwd")));
  }
}
