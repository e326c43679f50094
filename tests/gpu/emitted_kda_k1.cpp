// SPDX-License-Identifier: Apache-2.0
// Emitted text on streams and in CUDA graphs: results are those of a launch alone, bit for bit.
#include <optional>

#include <gmock/gmock.h>

#include "tests/gpu/emitted_on_device.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

struct Part {
  std::string spec;
  Pass pass;
  CallSizes sizes;
};

void PrintTo(const Part& part, std::ostream* out) { *out << part.spec; }

/// Fixed length and packed, with tensor maps where the device has them.
std::vector<Part> parts() {
  std::vector<Part> all;
  for (const char* spec : {"kda_k1", "gla"})
    for (const Pass pass : {Pass::fwd, Pass::bwd})
      for (const CallSizes& sizes : {CallSizes{1, 0, 3, {37, 0, 70, 26}, 9}, CallSizes{2, 45, 3}})
        all.push_back({spec, pass, sizes});
  return all;
}

class Emitted : public EmittedOnDevice, public ::testing::WithParamInterface<Part> {
 protected:
  void SetUp() override {
    EmittedOnDevice::SetUp();
    if (IsSkipped()) return;
    program = std::make_unique<EmulatedProgram>(GetParam().spec, Settings{});
    kernel = device_kernel(*program, GetParam().pass);
  }
  OnDeviceCall call(double phase, std::optional<CallSizes> sizes = {}) {
    return {*program, *kernel, GetParam().pass, sizes ? *sizes : GetParam().sizes, phase};
  }
  std::unique_ptr<EmulatedProgram> program;
  std::unique_ptr<runtime::CudaKernel> kernel;
};

runtime::LaunchOptions on(const runtime::Stream& stream) {
  runtime::LaunchOptions options;
  options.stream = stream.get();
  return options;
}

void copy_on(const runtime::Stream& stream, void* to, const void* from, int64_t bytes) {
  const auto pointer = [](const void* address) { return reinterpret_cast<runtime::CudaPointer>(address); };
  runtime::check_driver(runtime::driver().MemcpyDtoDAsync(pointer(to), pointer(from), bytes, stream.get()), "copy");
}
void fill_on(const runtime::Stream& stream, void* memory, unsigned char byte, int64_t bytes) {
  runtime::check_driver(
      runtime::driver().MemsetD8Async(reinterpret_cast<runtime::CudaPointer>(memory), byte, bytes, stream.get()),
      "fill");
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Shipped, Emitted, ::testing::ValuesIn(parts()), [](const auto& info) {
  return info.param.spec + (info.param.pass == Pass::fwd ? "_fwd" : "_bwd") +
         (info.param.sizes.seqlens.empty() ? "_fixed" : "_packed");
});

// Two streams with data and sizes of their own, several launches on the way in each.
TEST_P(Emitted, TwoStreamsAtOnce) {
  constexpr int copies = 4;
  CallSizes other_sizes = GetParam().sizes;
  if (other_sizes.seqlens.empty())
    other_sizes.tokens = 210;
  else
    other_sizes.seqlens = {1, 512, 33, 64};
  std::vector<OnDeviceCall> one, other;
  std::vector<Bits> one_alone, other_alone;
  for (int i = 0; i < copies; ++i) {
    one.push_back(call(i + 1)), other.push_back(call(10 + i, other_sizes));
    one_alone.push_back(one.back().alone(*kernel)), other_alone.push_back(other.back().alone(*kernel));
  }
  const runtime::Stream stream(0), beside(0);
  const runtime::ContextScope scope(0);
  for (int round = 0; round < 25; ++round) {
    for (int i = 0; i < copies; ++i) one[i].clear(), other[i].clear();
    for (int i = 0; i < copies; ++i) {
      kernel->launch(one[i].refs(), one[i].problem(), on(stream));
      kernel->launch(other[i].refs(), other[i].problem(), on(beside));
    }
    stream.synchronize();
    beside.synchronize();
    for (int i = 0; i < copies; ++i) {
      expect_same(one[i].outputs(), one_alone[i], "of the first stream");
      expect_same(other[i].outputs(), other_alone[i], "of the second stream");
    }
  }
}

// A slow copy, then an input, then the launch, then a copy of an output, with the stream's order alone between them.
// T099
TEST_P(Emitted, StreamsOrderIsEnough) {
  OnDeviceCall data = call(1);
  const Bits expected = data.alone(*kernel);
  const auto& [output, expected_bytes] = *expected.begin();
  const int64_t input_bytes = data.memory("q").bytes(), output_bytes = std::ssize(expected_bytes);
  constexpr int64_t slow = int64_t{128} << 20;
  constexpr int rounds = 50;
  runtime::DeviceBuffer source(0, input_bytes), from(0, slow), to(0, slow), results(0, rounds * output_bytes);
  const runtime::Stream stream(0);
  const runtime::ContextScope scope(0);
  copy_on(stream, source.data(), data.memory("q").data(), input_bytes);
  stream.synchronize();
  for (int repetition = 0; repetition < 4; ++repetition) {
    results.fill(0xff);
    data.clear();
    for (int i = 0; i < rounds; ++i) {
      fill_on(stream, data.memory("q").data(), 0xff, input_bytes);
      copy_on(stream, to.data(), from.data(), slow);
      copy_on(stream, data.memory("q").data(), source.data(), input_bytes);
      kernel->launch(data.refs(), data.problem(), on(stream));
      copy_on(stream, static_cast<char*>(results.data()) + i * output_bytes, data.memory(output).data(), output_bytes);
    }
    stream.synchronize();
    std::vector<std::byte> found(output_bytes);
    for (int i = 0; i < rounds; ++i) {
      results.download(found.data(), output_bytes, i * output_bytes);
      ASSERT_TRUE(found == expected_bytes) << output << " of round " << i;
    }
  }
}

// The launch's own workspace is not freed before it is done: memory of the same pool is asked for and filled on another
// stream at once.
// T101
TEST_P(Emitted, WorkspaceIsOrderedByTheStream) {
  OnDeviceCall data = call(1);
  const Bits expected = data.alone(*kernel);
  const int64_t bytes = std::max<int64_t>(256, kernel->workspace_bytes(data.problem()));
  const runtime::Stream stream(0), other(0);
  const runtime::ContextScope scope(0);
  data.clear();
  for (int i = 0; i < 200; ++i) {
    kernel->launch(data.refs(), data.problem(), on(stream));
    for (int k = 0; k < 4; ++k) {
      const runtime::StreamMemory noise(0, bytes, other.get());
      fill_on(other, noise.data(), 0xff, bytes);
    }
    if (i % 20 != 19) continue;
    stream.synchronize();
    expect_same(data.outputs(), expected, "beside memory that is filled");
    data.clear();
  }
  other.synchronize();
}

// T102 T103 T105
TEST_P(Emitted, CaptureAndReplayWithChangedInputs) {
  OnDeviceCall data = call(1);
  const runtime::Stream stream(0);
  const runtime::ContextScope scope(0);
  {
    CapturedGraph cold(stream.get());
    try {
      kernel->launch(data.refs(), data.problem(), on(stream));
      ADD_FAILURE() << "a cold kernel was launched inside a capture";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("warm_up"));
    }
    cold.end();  // an empty graph
  }
  kernel->warm_up(0);
  const int64_t bytes = std::max<int64_t>(256, kernel->workspace_bytes(data.problem()));
  const runtime::DeviceBuffer workspace(0, bytes);
  for (const bool own_workspace : {true, false}) {
    SCOPED_TRACE(own_workspace ? "workspace of the launch" : "workspace of the caller");
    runtime::LaunchOptions options = on(stream);
    if (!own_workspace) options.workspace = {workspace.data(), bytes};
    data.clear();
    CapturedGraph graph(stream.get());
    kernel->launch(data.refs(), data.problem(), options);
    ASSERT_TRUE(graph.end()) << "the capture was spoilt";
    constexpr int kernel_node = 0, memset_node = 2, allocation_node = 10, free_node = 11;
    for (const int type : graph.node_types())
      EXPECT_TRUE(type == kernel_node || type == memset_node ||
                  (own_workspace && (type == allocation_node || type == free_node)))
          << "a node of type " << type;
    for (int round = 0; round < 3; ++round) {
      data.change(2 + round);
      const Bits expected = data.alone(*kernel);
      data.clear();
      graph.replay();
      stream.synchronize();
      expect_same(data.outputs(), expected, "of replay " + std::to_string(round));
    }
    if (!data.problem().packed()) continue;
    data.change_lengths(*program, {33, 1, 0, 60}, 48, 7);  // as many tokens and sequences
    const Bits expected = data.alone(*kernel);
    data.clear();
    graph.replay();
    stream.synchronize();
    expect_same(data.outputs(), expected, "with other offsets");
    data.change_lengths(*program, GetParam().sizes.seqlens, GetParam().sizes.dead_rows, 1);
  }
}

// Offsets in place and in memory that is freed and taken again, most often at the same address.
// T105
TEST_P(Emitted, OffsetsAreReadAtEachLaunch) {
  if (GetParam().sizes.seqlens.empty()) GTEST_SKIP() << "no offsets";
  OnDeviceCall data = call(1);
  const std::vector<std::pair<std::vector<int64_t>, int64_t>> packings{
      {{37, 0, 70, 26}, 9}, {{133, 0, 0, 0}, 9}, {{1, 2, 3, 4}, 132}, {{25, 25, 25, 67}, 0}};
  std::vector<Bits> expected;
  for (const auto& [lengths, dead_rows] : packings) {
    CallSizes sizes = GetParam().sizes;
    sizes.seqlens = lengths, sizes.dead_rows = dead_rows;
    expected.push_back(call(3, sizes).alone(*kernel));
  }
  const runtime::Stream stream(0);
  for (int round = 0; round < 40; ++round) {
    const size_t i = static_cast<size_t>(round * 7 + round / 4) % packings.size();
    data.change_lengths(*program, packings[i].first, packings[i].second, 3);
    if (round % 2) data.move_offsets();
    data.clear();
    kernel->launch(data.refs(), data.problem(), on(stream));
    stream.synchronize();
    expect_same(data.outputs(), expected[i], "of round " + std::to_string(round));
  }
}
