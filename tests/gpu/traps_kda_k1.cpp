// SPDX-License-Identifier: Apache-2.0
// Emitted text on a device: sums that repeat their bits, outputs that are overwritten, places beyond 32 bits.
#include <thread>

#include <gtest/gtest.h>

#include "tests/common/far_tensor.h"
#include "tests/gpu/emitted_on_device.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

class TrapsOnDevice : public EmittedOnDevice {
 protected:
  /// The tensors of the pass of a prepared call.
  static TensorBuffers buffers_of(const Call& call, const runtime::Kernel& kernel) {
    TensorBuffers buffers;
    for (const runtime::TensorInfo& info : kernel.manifest().tensors)
      if (call.has(info.name)) buffers[info.name] = call.tensor(info.name);
    return buffers;
  }
  static void expect_same_outputs(const TensorBuffers& a, const TensorBuffers& b, const runtime::Kernel& kernel) {
    for (const runtime::TensorInfo& info : kernel.manifest().tensors)
      if (info.direction == runtime::Direction::out) {
        EXPECT_EQ(a.at(info.name).data, b.at(info.name).data) << info.name;
      }
  }
};

}  // namespace

TEST_F(TrapsOnDevice, T023T026SumsRepeatTheirBits) {
  EmulatedProgram scaled([](Spec& s, const Options&, Axis t, Axis h,
                            Axis d) { s.output("y", s.param("a", {}) * s.input("x", {t, h, d})); },
                         {{"dim", "256"}, {"dtype", "f32"}, {"out", "f32"}, {"grads", "f32"}});
  EmulatedProgram preamble("kda_k1", {});
  Call scalar(scaled, {1, 4000, 1}), gates(preamble, {1, 0, 4, {37, 0, 700, 263}});
  scalar.set("dy", 1).prepare(Pass::bwd);
  gates.prepare(Pass::bwd);
  const auto scaled_kernel = device_kernel(scaled, Pass::bwd), gates_kernel = device_kernel(preamble, Pass::bwd);
  const auto repeat = [&](Call& call, runtime::Kernel& kernel) {
    const TensorBuffers before = buffers_of(call, kernel);
    TensorBuffers first = before;
    launch_on_host(kernel, first, call.problem(), 0);
    for (int i = 0; i < 50; ++i) {
      TensorBuffers again = before;
      launch_on_host(kernel, again, call.problem(), 0);
      expect_same_outputs(again, first, kernel);
    }
    return first;
  };
  std::thread beside([&] { repeat(gates, *gates_kernel); });  // each loads the device for the other
  const TensorBuffers result = repeat(scalar, *scaled_kernel);
  beside.join();
  double sum = 0, size = 0;
  for (const double x : values_of(scalar.tensor("x"))) sum += x, size += std::abs(x);
  EXPECT_NEAR(result.at("da").get(0), sum, 1e-5 * std::abs(sum) + 1e-9 * size);
}

TEST_F(TrapsOnDevice, T060OutputsAreOverwritten) {
  EmulatedProgram preamble("kda_k1", {});
  Call call(preamble, {1, 0, 2, {21, 40}, 9});
  call.prepare(Pass::bwd);
  const auto kernel = device_kernel(preamble, Pass::bwd);
  TensorBuffers nan = buffers_of(call, *kernel), sevens = nan;
  for (const runtime::TensorInfo& info : kernel->manifest().tensors)
    if (info.direction == runtime::Direction::out)
      for (int64_t i = 0; i < sevens.at(info.name).elements(); ++i) sevens.at(info.name).set(i, 7);
  launch_on_host(*kernel, nan, call.problem(), 0);
  for (int i = 0; i < 2; ++i)
    launch_on_host(*kernel, sevens, call.problem(), 0);  // the second time over its own results
  expect_same_outputs(sevens, nan, *kernel);
}

/// Far tensors side by side in one piece of device memory, each in a gap of the others: as large as one of them.
class FarOnDevice {
 public:
  static constexpr int64_t slack = 4096;  // around each block
  FarOnDevice(const runtime::Kernel& kernel, const Call& call, const std::vector<runtime::DimRole>& far,
              int64_t pitch_bytes, int64_t odd) {
    int64_t used = 0;
    for (const runtime::TensorInfo& info : kernel.manifest().tensors) {
      if (!call.has(info.name)) continue;
      const runtime::HostTensor& tensor = call.tensor(info.name);
      const int64_t distance = pitch_bytes / runtime::size_of(tensor.dtype) + odd;
      const bool param = info.role == runtime::TensorRole::param || info.role == runtime::TensorRole::param_gradient;
      tensors_.push_back({info.name,
                          FarTensor(tensor, runtime::dimensions(kernel.manifest(), info),
                                    param ? std::vector<runtime::DimRole>{} : far, distance),
                          used + slack, info.direction == runtime::Direction::out});
      const FarTensor& placed = tensors_.back().tensor;
      // Blocks of another odd distance drift apart from block to block.
      used += 2 * slack + (placed.block_bytes() + 255) / 256 * 256 + placed.blocks() * odd * 256;
      bytes_ = std::max(bytes_, placed.place(placed.blocks() - 1));
      far_tensors += placed.is_far();
    }
    bytes_ += used + slack;
  }
  int64_t bytes() const { return bytes_; }

  std::vector<runtime::TensorRef> upload(runtime::DeviceBuffer& memory) {
    memory.fill(0xff);
    std::vector<runtime::TensorRef> refs;
    for (Placed& placed : tensors_) {
      const runtime::HostTensor& dense = placed.tensor.dense();
      refs.push_back({placed.name, static_cast<char*>(memory.data()) + placed.start, dense.dtype, dense.shape,
                      placed.tensor.strides(), 0});
      for (int64_t i = 0; i < placed.tensor.blocks() && !placed.output; ++i) {
        const std::vector<std::byte> block = placed.tensor.block(i);
        memory.upload(block.data(), std::ssize(block), placed.start + placed.tensor.place(i));
      }
    }
    return refs;
  }
  /// What came out; whatever lies around a block must be untouched.
  TensorBuffers download(const runtime::DeviceBuffer& memory) {
    TensorBuffers result;
    constexpr int64_t around = slack / 2;
    for (Placed& placed : tensors_) {
      const int64_t bytes = placed.tensor.block_bytes();
      std::vector<std::byte> found(bytes + 2 * around);
      for (int64_t i = 0; i < placed.tensor.blocks(); ++i) {
        memory.download(found.data(), std::ssize(found), placed.start + placed.tensor.place(i) - around);
        placed.tensor.set_block(i, found.data() + around);
        const auto untouched = [](std::byte byte) { return byte == std::byte{0xff}; };
        EXPECT_TRUE(std::all_of(found.begin(), found.begin() + around, untouched)) << placed.name << " block " << i;
        EXPECT_TRUE(std::all_of(found.end() - around, found.end(), untouched)) << placed.name << " block " << i;
      }
      result[placed.name] = placed.tensor.dense();
    }
    return result;
  }
  int far_tensors = 0;

 private:
  struct Placed {
    std::string name;
    FarTensor tensor;
    int64_t start;
    bool output;
  };
  std::vector<Placed> tensors_;
  int64_t bytes_ = 0;
};

// Tokens, heads or batch rows so far apart that the last one lies past 2^32 elements, at a distance that fits vectors
// and tensor maps and at an odd one. At most 35 GB.
TEST_F(TrapsOnDevice, T038T039T040T041PlacesBeyond32Bits) {
  using runtime::DimRole;
  struct Case {
    const char* what;
    std::vector<DimRole> far;
    int64_t pitch_bytes;  // 4 bytes for each of 2^32 elements and more
    CallSizes sizes;
  };
  constexpr int64_t far = int64_t{1} << 34;
  const std::vector<Case> cases{
      {"tokens", {DimRole::tokens}, far / 16 + 4096, {1, 17, 2}},
      {"heads", {DimRole::head}, far + 4096, {1, 40, 3}},
      {"batch rows", {DimRole::batch}, far + 4096, {3, 21, 2}},
      {"heads, packed", {DimRole::head}, far + 4096, {1, 0, 3, {3, 0, 38}, 2}},
      {"tokens, packed", {DimRole::tokens}, far / 16 + 4096, {1, 0, 2, {3, 0, 14}, 0, runtime::OffsetType::i64}}};
  runtime::DeviceBuffer memory;
  for (const char* spec : {"rmsnorm", "kda_k1"}) {
    EmulatedProgram program(spec, {});
    for (const Pass pass : {Pass::fwd, Pass::bwd}) {
      const auto kernel = device_kernel(program, pass);
      for (const Case& given : cases)
        for (const int64_t odd : {0, 1}) {
          SCOPED_TRACE(std::string(spec) + (pass == Pass::fwd ? " fwd " : " bwd ") + given.what + (odd ? " odd" : ""));
          Call call(program, given.sizes);
          call.prepare(pass);
          TensorBuffers expected = buffers_of(call, *kernel);
          launch_on_host(*kernel, expected, call.problem(), 0);
          FarOnDevice tensors(*kernel, call, given.far, given.pitch_bytes, odd);
          EXPECT_GE(tensors.far_tensors, 2);
          if (memory.bytes() < tensors.bytes()) try {
              memory = {};
              memory = runtime::DeviceBuffer(0, tensors.bytes());
            } catch (const Error& error) {
              GTEST_SKIP() << "not enough device memory: " << error.what();
            }
          runtime::Problem problem = call.problem();
          runtime::DeviceBuffer offsets;
          if (problem.packed()) {
            const int64_t bytes = (problem.sequences + 1) * (problem.offsets == runtime::OffsetType::i64 ? 8 : 4);
            offsets = runtime::DeviceBuffer(0, bytes);
            offsets.upload(problem.cu_seqlens, bytes);
            problem.cu_seqlens = offsets.data();
          }
          const std::vector<runtime::TensorRef> refs = tensors.upload(memory);
          const runtime::Stream stream(0);
          runtime::LaunchOptions options;
          options.stream = stream.get();
          kernel->launch(refs, problem, options);
          stream.synchronize();
          expect_same_outputs(tensors.download(memory), expected, *kernel);
        }
    }
  }
}
