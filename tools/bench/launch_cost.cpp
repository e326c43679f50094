// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/launch_cost.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "runtime/benchmarking.h"
#include "runtime/launch_plan.h"
#include "runtime/tensor_map.h"
#include "tools/bench/call.h"

namespace kdagen {
namespace {

/// Microseconds a call of `work`: the median of rounds that are shorter than a stream's queue.
template <class Work>
double host_us(const runtime::Stream& stream, const Work& work) {
  constexpr int rounds = 21, calls = 50;
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) work();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    stream.synchronize();
    times.push_back(time.count() / calls);
  }
  return runtime::median_of(times);
}

/// Calls with the same sizes and memory of their own each, more of them than a kernel keeps plans of.
class FreshCalls {
 public:
  FreshCalls(const DeviceCall& call, int device_ordinal) : call_(call) {
    constexpr int64_t alignment = 256;
    for (const runtime::TensorRef& tensor : call.tensors()) {  // one that repeats another's memory goes on doing so
      const int64_t bytes = runtime::element_count(tensor.shape) * runtime::size_of(tensor.dtype);
      strides_[tensor.data] = runtime::ceil_divide(std::max<int64_t>(bytes, 1), alignment) * alignment;
    }
    for (const auto& [data, stride] : strides_) {
      memory_[data] = runtime::DeviceBuffer(device_ordinal, count * stride);
      memory_[data].fill(0);
    }
  }

  void launch(runtime::CudaKernel& kernel, runtime::CudaStream stream) {
    std::vector<runtime::TensorRef> tensors = call_.tensors();
    for (runtime::TensorRef& tensor : tensors)
      tensor.data = static_cast<char*>(memory_.at(tensor.data).data()) + turn_ * strides_.at(tensor.data);
    turn_ = (turn_ + 1) % count;
    runtime::LaunchOptions options;
    options.stream = stream;
    options.workspace = {call_.workspace(), std::max<int64_t>(kernel.workspace_bytes(call_.problem()), 1)};
    kernel.launch(tensors, call_.problem(), options);
  }

 private:
  static constexpr int64_t count = 2 * runtime::LaunchPlans::capacity;
  const DeviceCall& call_;
  std::map<const void*, int64_t> strides_;
  std::map<const void*, runtime::DeviceBuffer> memory_;
  int64_t turn_ = 0;
};

}  // namespace

LaunchCost launch_cost(runtime::CudaKernel& kernel, int device_ordinal) {
  const runtime::Manifest& manifest = kernel.manifest();
  BenchSizes sizes;
  sizes.tokens = manifest.chunk;
  sizes.heads = 1;
  Patterns patterns;
  DeviceCall call(manifest, sizes, device_ordinal, patterns);
  const runtime::Stream stream(device_ordinal);
  LaunchCost cost;
  call.launch(kernel, stream.get());
  stream.synchronize();
  cost.call_us = host_us(stream, [&] { call.launch(kernel, stream.get()); });
  FreshCalls fresh_calls(call, device_ordinal);
  cost.fresh_us = host_us(stream, [&] { fresh_calls.launch(kernel, stream.get()); });
  const auto fresh = runtime::make_cuda_kernel(kernel.text(), manifest, kernel.options());
  const auto start = std::chrono::steady_clock::now();
  call.launch(*fresh, stream.get());
  cost.load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  stream.synchronize();

  const runtime::ContextScope scope(device_ordinal);
  runtime::CompileOptions options;
  options.compiler = runtime::default_cuda_compiler();
  options.kernel = manifest.kernel;
  options.newer_device = true;
  const runtime::CompiledText compiled =
      runtime::compile(kernel.text(), runtime::device_info(device_ordinal).arch, options);
  runtime::LoadedModule module(device_ordinal, compiled.image, manifest.kernel);
  const runtime::LaunchPlan plan(
      manifest, call.problem(), call.tensors(), bind_tensors(manifest, call.problem(), call.tensors()),
      [&](const runtime::BoundTensor& tensor, int rows) {
        return runtime::cuda_tensor_map(runtime::tensor_box(manifest, call.problem(), tensor, rows));
      });
  std::vector<runtime::CudaFunction> functions;
  for (const runtime::LaunchStep& step : plan.steps)
    functions.push_back(module.prepare(step.entry, step.info->block, step.info->shared_bytes).handle);
  std::vector<std::uint64_t> words = plan.words_for(call.workspace());
  void* parameters[] = {words.data()};
  cost.launches = static_cast<int>(functions.size());
  cost.plain_us = host_us(stream, [&] {
    for (std::size_t i = 0; i < functions.size(); ++i) {
      const runtime::LaunchStep& step = plan.steps[i];
      runtime::check_driver(
          runtime::driver().LaunchKernel(functions[i], step.grid[0], step.grid[1], step.grid[2], step.info->block, 1, 1,
                                         step.info->shared_bytes, stream.get(), parameters, nullptr),
          [] { return "launch"; });
    }
  });
  return cost;
}

}  // namespace kdagen
