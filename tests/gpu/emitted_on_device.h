// SPDX-License-Identifier: Apache-2.0
// Emitted text on a device, on tensors that stay there from launch to launch, and CUDA graphs of it.
#pragma once
#include <dlfcn.h>

#include <memory>

#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "runtime/driver.h"
#include "tests/common/emulated_program.h"

namespace kdagen::testing {

class EmittedOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!runtime::driver_status().ok) GTEST_SKIP() << runtime::driver_status().reason;
    try {
      runtime::default_cuda_compiler();
    } catch (const ToolchainError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

inline std::unique_ptr<runtime::CudaKernel> device_kernel(const EmulatedProgram& program, Pass pass) {
  auto [text, manifest] = program.emit(pass, runtime::device_info(0).arch);
  return runtime::make_cuda_kernel(std::move(text), std::move(manifest));
}

using Bits = std::map<std::string, std::vector<std::byte>>;

/// The tensors of a pass in device memory, optional ones included. `phase` chooses the inputs' numbers.
class OnDeviceCall {
 public:
  OnDeviceCall(EmulatedProgram& program, const runtime::Kernel& kernel, Pass pass, const CallSizes& sizes, double phase)
      : kernel_(kernel), pass_(pass), sizes_(sizes), call_(std::make_unique<Call>(program, sizes)) {
    fill(phase);
    for (const runtime::TensorInfo& info : kernel_.manifest().tensors) {
      if (!call_->has(info.name)) continue;
      runtime::HostTensor& tensor = call_->tensor(info.name);
      memory_[info.name] = runtime::DeviceBuffer(0, std::max<int64_t>(1, std::ssize(tensor.data)));
      refs_.push_back(runtime::ref(info.name, tensor));
      refs_.back().data = memory_.at(info.name).data();
      refs_.back().device_ordinal = 0;
    }
    problem_ = call_->problem();
    if (problem_.packed()) {
      offsets_ = runtime::DeviceBuffer(0, offset_bytes());
      problem_.cu_seqlens = offsets_.data();
    }
    upload();
  }

  const std::vector<runtime::TensorRef>& refs() const { return refs_; }
  const runtime::Problem& problem() const { return problem_; }
  const runtime::DeviceBuffer& memory(const std::string& name) const { return memory_.at(name); }

  /// Other inputs in the same memory.
  void change(double phase) {
    fill(phase);
    upload();
  }
  /// Other lengths in the same memory: as many sequences.
  void change_lengths(EmulatedProgram& program, const std::vector<int64_t>& lengths, int64_t dead_rows, double phase) {
    sizes_.seqlens = lengths, sizes_.dead_rows = dead_rows;
    call_ = std::make_unique<Call>(program, sizes_);
    change(phase);
  }
  /// Frees the offsets' memory and takes other.
  void move_offsets() {
    offsets_ = {};
    offsets_ = runtime::DeviceBuffer(0, offset_bytes());
    problem_.cu_seqlens = offsets_.data();
    upload();
  }
  int64_t offset_bytes() const {
    return (problem_.sequences + 1) * (problem_.offsets == runtime::OffsetType::i64 ? 8 : 4);
  }

  /// NaN in every output.
  void clear() {
    for_each_output([](const std::string&, runtime::DeviceBuffer& memory) { memory.fill(0xff); });
  }
  Bits outputs() {
    Bits bits;
    for_each_output([&](const std::string& name, runtime::DeviceBuffer& memory) {
      std::vector<std::byte>& data = bits[name];
      data.resize(call_->tensor(name).data.size());
      memory.download(data.data(), std::ssize(data));
    });
    return bits;
  }
  /// What one launch with nothing beside it gives.
  Bits alone(runtime::Kernel& kernel) {
    clear();
    const runtime::Stream stream(0);
    runtime::LaunchOptions options;
    options.stream = stream.get();
    kernel.launch(refs_, problem_, options);
    stream.synchronize();
    return outputs();
  }

 private:
  void fill(double phase) {
    for (const runtime::TensorInfo& info : kernel_.manifest().tensors) {
      if (info.direction == runtime::Direction::out) continue;
      const double shift = phase + static_cast<double>(std::hash<std::string>()(info.name) % 1000);
      const double size = info.role == runtime::TensorRole::param ? 0.25 : 1;
      call_->set(info.name, [=](const At& at) {
        return size * std::sin(shift + 1.7 * static_cast<double>(at.row) + 0.3 * static_cast<double>(at.d) +
                               static_cast<double>(5 * at.h));
      });
    }
    call_->prepare(pass_);
  }
  void upload() {
    for (auto& [name, memory] : memory_) {
      const runtime::HostTensor& tensor = call_->tensor(name);
      memory.upload(tensor.data.data(), std::ssize(tensor.data));
    }
    if (problem_.packed()) offsets_.upload(call_->problem().cu_seqlens, offset_bytes());
  }
  template <class Action>
  void for_each_output(Action action) {
    for (const runtime::TensorInfo& info : kernel_.manifest().tensors)
      if (info.direction == runtime::Direction::out && memory_.count(info.name))
        action(info.name, memory_.at(info.name));
  }

  const runtime::Kernel& kernel_;
  Pass pass_;
  CallSizes sizes_;
  std::unique_ptr<Call> call_;
  std::map<std::string, runtime::DeviceBuffer> memory_;
  runtime::DeviceBuffer offsets_;
  std::vector<runtime::TensorRef> refs_;
  runtime::Problem problem_;
};

inline void expect_same(const Bits& found, const Bits& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, data] : expected) EXPECT_TRUE(found.at(name) == data) << name << " " << what;
}

/// A CUDA graph of what is enqueued on a stream between the constructor and end(). Nothing that allocates or waits
/// outside the stream's order is allowed in between.
class CapturedGraph {
 public:
  explicit CapturedGraph(runtime::CudaStream stream) : stream_(stream) {
    constexpr int global = 0;
    EXPECT_EQ(function<int (*)(void*, int)>("cuStreamBeginCapture_v2")(stream_, global), 0);
  }
  CapturedGraph(const CapturedGraph&) = delete;
  ~CapturedGraph() {
    if (executable_) function<int (*)(void*)>("cuGraphExecDestroy")(executable_);
    if (graph_) function<int (*)(void*)>("cuGraphDestroy")(graph_);
  }
  /// False if the capture was spoilt.
  bool end() {
    return function<int (*)(void*, void**)>("cuStreamEndCapture")(stream_, &graph_) == 0 && graph_ &&
           function<int (*)(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(&executable_, graph_,
                                                                                               0) == 0;
  }
  /// CUgraphNodeType of each node.
  std::vector<int> node_types() const {
    const auto nodes = function<int (*)(void*, void**, size_t*)>("cuGraphGetNodes");
    size_t count = 0;
    EXPECT_EQ(nodes(graph_, nullptr, &count), 0);
    std::vector<void*> list(count);
    EXPECT_EQ(nodes(graph_, list.data(), &count), 0);
    std::vector<int> types(count);
    for (size_t i = 0; i < count; ++i)
      EXPECT_EQ(function<int (*)(void*, int*)>("cuGraphNodeGetType")(list[i], &types[i]), 0);
    return types;
  }
  void replay() { ASSERT_EQ(function<int (*)(void*, void*)>("cuGraphLaunch")(executable_, stream_), 0); }

 private:
  template <class Function>
  static Function function(const char* name) {
    static void* library = dlopen("libcuda.so.1", RTLD_NOW);
    return reinterpret_cast<Function>(dlsym(library, name));
  }
  runtime::CudaStream stream_;
  void *graph_ = nullptr, *executable_ = nullptr;
};

}  // namespace kdagen::testing
