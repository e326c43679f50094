// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <kdagen/error.h>

#include "runtime/benchmarking.h"
#include "runtime/safetensors.h"
#include "specs/workloads/tensor.h"

namespace kdagen {
namespace {

constexpr int warm_ups = 10, repetitions = 50;
constexpr int64_t pattern_elements = 1 << 20;  // repeated through larger tensors: host numbers are slow to make

double median(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

runtime::Problem problem_of(const BenchSizes& sizes) {
  if (!sizes.seqlens.empty() && sizes.batch != 1)
    throw UsageError(fmt::format("--seqlens goes with --batch 1, not {}", sizes.batch));
  runtime::Problem problem;
  problem.batch = sizes.batch;
  problem.heads = sizes.heads;
  problem.tokens = sizes.tokens;
  problem.sequences = sizes.batch;
  if (!sizes.seqlens.empty()) {
    problem.tokens = std::accumulate(sizes.seqlens.begin(), sizes.seqlens.end(), int64_t{0});
    problem.sequences = static_cast<int64_t>(sizes.seqlens.size());
  }
  if (runtime::is_empty(problem)) throw UsageError("there is nothing to measure: batch, tokens and heads must be 1 or more");
  return problem;
}

/// N(0,1), parameters N(0,1)/2; row exponents are 0.
runtime::HostTensor pattern_of(const runtime::TensorInfo& info, int64_t elements) {
  runtime::HostTensor pattern(info.dtype, {std::min(elements, pattern_elements)});
  if (info.dtype == runtime::DType::i8) return pattern;
  Random random(1, info.name);
  const double size = info.role == runtime::TensorRole::param ? 0.5 : 1;
  for (int64_t i = 0; i < pattern.elements(); ++i) pattern.set(i, size * random.normal());
  return pattern;
}

void fill(runtime::DeviceBuffer& buffer, const runtime::HostTensor& pattern) {
  const int64_t step = static_cast<int64_t>(pattern.data.size());
  for (int64_t at = 0; at < buffer.bytes(); at += step)
    buffer.upload(pattern.data.data(), std::min(step, buffer.bytes() - at), at);
}

/// A call with all its memory on the device.
class Call {
 public:
  Call(runtime::CudaKernel& kernel, const BenchSizes& sizes, int ordinal) : kernel_(kernel), problem_(problem_of(sizes)) {
    if (!sizes.seqlens.empty()) set_offsets(sizes.seqlens, ordinal);
    runtime::check_problem(kernel.manifest(), problem_);
    for (const runtime::TensorInfo& info : kernel.manifest().tensors) add(info, ordinal);
    workspace_ = runtime::DeviceBuffer(ordinal, std::max<int64_t>(kernel.workspace_bytes(problem_), 1));
  }

  int64_t bytes() const { return bytes_; }
  void launch(runtime::CudaStream stream) {
    runtime::LaunchOptions options;
    options.stream = stream;
    options.workspace = {workspace_.data(), workspace_.bytes()};
    kernel_.launch(tensors_, problem_, options);
  }

 private:
  void set_offsets(const std::vector<int64_t>& lengths, int ordinal) {
    std::vector<int32_t> offsets{0};
    for (int64_t length : lengths) offsets.push_back(static_cast<int32_t>(offsets.back() + length));
    const int64_t bytes = static_cast<int64_t>(offsets.size() * sizeof(int32_t));
    offsets_ = runtime::DeviceBuffer(ordinal, bytes);
    offsets_.upload(offsets.data(), bytes);
    problem_.cu_seqlens = offsets_.data();
    problem_.offsets = runtime::OffsetType::i32;
  }

  void add(const runtime::TensorInfo& info, int ordinal) {
    const runtime::Dims shape = runtime::tensor_shape(kernel_.manifest(), info, problem_);
    const int64_t elements = runtime::element_count(shape), bytes = elements * runtime::size_of(info.dtype);
    if (!info.may_alias.empty()) return alias(info, shape, bytes, ordinal);
    memory_.emplace_back(ordinal, std::max<int64_t>(bytes, 1));
    if (info.direction == runtime::Direction::in) fill(memory_.back(), pattern_of(info, elements));
    tensors_.push_back({info.name, memory_.back().data(), info.dtype, shape, runtime::contiguous_strides(shape), ordinal});
    bytes_ += bytes;
  }

  /// In the input's memory, as a caller without other use for it would: neither is moved.
  void alias(const runtime::TensorInfo& info, const runtime::Dims& shape, int64_t bytes, int ordinal) {
    const auto input = std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& t) { return t.name == info.may_alias; });
    tensors_.push_back({info.name, input->data, info.dtype, shape, input->strides, ordinal});
    bytes_ -= bytes;
  }

  runtime::CudaKernel& kernel_;
  runtime::Problem problem_;
  std::vector<runtime::DeviceBuffer> memory_;
  runtime::DeviceBuffer offsets_, workspace_;
  std::vector<runtime::TensorRef> tensors_;
  int64_t bytes_ = 0;
};

void describe_entry(runtime::CudaKernel& kernel, int ordinal, BenchRun& run) {
  const auto& launches = kernel.manifest().launches;
  const auto launch = std::find_if(launches.begin(), launches.end(),
                                   [&](const auto& info) { return info.entry == kernel.manifest().kernel; });
  if (launch == launches.end()) return;
  for (const runtime::EntryReport& report : kernel.report(ordinal)) {
    if (report.entry != launch->entry) continue;
    run.registers = report.attributes.registers;
    if (!report.resources.entry.empty())
      run.spill_bytes = report.resources.spill_store_bytes + report.resources.spill_load_bytes;
    const int held = runtime::device_info(ordinal).threads_per_multiprocessor;
    if (held > 0) run.occupancy = static_cast<double>(report.attributes.blocks_per_multiprocessor) * launch->block / held;
  }
}

}  // namespace

double copy_speed(int device_ordinal) {
  const int64_t bytes = std::min(int64_t{1} << 30, runtime::device_info(device_ordinal).memory_bytes / 8);
  runtime::DeviceBuffer from(device_ordinal, bytes), to(device_ordinal, bytes);
  from.fill(0);
  const runtime::Stream stream(device_ordinal);
  const auto copy = [&] {
    const runtime::ContextScope scope(device_ordinal);
    runtime::check_driver(
        runtime::driver().MemcpyDtoDAsync(reinterpret_cast<runtime::CudaPointer>(to.data()),
                                          reinterpret_cast<runtime::CudaPointer>(from.data()), bytes, stream.get()),
        "copy device memory");
  };
  const double ms = median(runtime::time_on_stream(device_ordinal, stream.get(), 3, 20, copy));
  return 2.0 * static_cast<double>(bytes) / ms * 1e-6;
}

BenchRun time_kernel(runtime::CudaKernel& kernel, const BenchSizes& sizes, int device_ordinal) {
  Call call(kernel, sizes, device_ordinal);
  const runtime::Stream stream(device_ordinal);
  BenchRun run;
  run.direction = kernel.manifest().pass;
  run.bytes = call.bytes();
  run.text_hash = kernel.manifest().text_hash;
  run.ms = median(runtime::time_on_stream(device_ordinal, stream.get(), warm_ups, repetitions,
                                          [&] { call.launch(stream.get()); }));
  stream.synchronize();
  describe_entry(kernel, device_ordinal, run);
  return run;
}

nlohmann::ordered_json to_json(const BenchRun& run) {
  const auto known = [](const auto& value) { return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr); };
  return {{"direction", run.direction},
          {"ms", run.ms},
          {"bytes", run.bytes},
          {"gbps", run.gbps()},
          {"copy_gbps", run.copy_gbps},
          {"fraction_of_copy", run.gbps() / run.copy_gbps},
          {"config", run.config},
          {"text_hash", run.text_hash},
          {"registers", run.registers},
          {"spill_bytes", known(run.spill_bytes)},
          {"occupancy", run.occupancy},
          {"roofline_ms", run.roofline_ms()},
          {"verified", known(run.verified)}};
}

std::string to_text(const std::vector<BenchRun>& runs) {
  std::string text = fmt::format("{:<5} {:>9} {:>9} {:>8} {:>6} {:>9} {:>9} {:>9}  {}\n", "pass", "ms", "floor", "GB/s",
                                 "copy", "registers", "spilled", "occupancy", "schedule");
  for (const BenchRun& run : runs)
    text += fmt::format("{:<5} {:>9.4f} {:>9.4f} {:>8.0f} {:>5.1f}% {:>9} {:>9} {:>8.0f}%  {}{}\n", run.direction, run.ms,
                        run.roofline_ms(), run.gbps(), 100 * run.gbps() / run.copy_gbps, run.registers,
                        run.spill_bytes ? std::to_string(*run.spill_bytes) : "?", 100 * run.occupancy, run.config,
                        run.verified && !*run.verified ? "  CHECK FAILED" : "");
  return text;
}

}  // namespace kdagen
