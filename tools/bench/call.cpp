// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/call.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <kdagen/error.h>

#include "specs/workloads/tensor.h"

namespace kdagen {
namespace {

constexpr int64_t pattern_elements = 1 << 20;  // repeated through larger tensors: host numbers are slow to make

runtime::HostTensor pattern_of(const runtime::TensorInfo& info, int64_t elements) {
  runtime::HostTensor pattern(info.dtype, {elements});
  if (info.dtype == runtime::DType::i8) return pattern;
  Random random(1, info.name);
  const double size = info.role == runtime::TensorRole::param ? 0.5 : 1;
  for (int64_t i = 0; i < pattern.elements(); ++i) pattern.set(i, size * random.normal());
  return pattern;
}

}  // namespace

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
    problem.offsets = runtime::OffsetType::i32;
  }
  if (runtime::is_empty(problem))
    throw UsageError("there is nothing to measure: batch, tokens and heads must be 1 or more");
  return problem;
}

void Patterns::fill(runtime::DeviceBuffer& buffer, const runtime::TensorInfo& info, int64_t elements, int64_t start) {
  const int64_t some = std::min(elements, pattern_elements);
  auto found = known_.find({info.name, some});
  if (found == known_.end()) found = known_.emplace(std::pair(info.name, some), pattern_of(info, some)).first;
  const runtime::HostTensor& pattern = found->second;
  const int64_t bytes = elements * runtime::size_of(info.dtype), step = static_cast<int64_t>(pattern.data.size());
  for (int64_t at = 0; at < bytes; at += step)
    buffer.upload(pattern.data.data(), std::min(step, bytes - at), start + at);
}

DeviceCall::DeviceCall(const runtime::Manifest& manifest, const BenchSizes& sizes, int ordinal, Patterns& patterns,
                       const CallForm& form)
    : problem_(problem_of(sizes)), ordinal_(ordinal) {
  if (!sizes.seqlens.empty()) {
    problem_.offsets = form.offsets;
    if (form.offsets == runtime::OffsetType::i64)
      set_offsets<int64_t>(sizes.seqlens);
    else
      set_offsets<int32_t>(sizes.seqlens);
  }
  runtime::check_problem(manifest, problem_);
  for (const runtime::TensorInfo& info : manifest.tensors) add(manifest, info, patterns, form);
}

std::vector<DeviceCall::Output> DeviceCall::outputs() {
  std::vector<Output> outputs;
  for (const auto& [name, at] : outputs_) outputs.push_back({name, &memory_[at], memory_[at].bytes()});
  return outputs;
}

void DeviceCall::launch(runtime::CudaKernel& kernel, runtime::CudaStream stream) {
  const int64_t needed = std::max<int64_t>(kernel.workspace_bytes(problem_), 1);
  if (workspace_.bytes() < needed) workspace_ = runtime::DeviceBuffer(ordinal_, needed);
  runtime::LaunchOptions options;
  options.stream = stream;
  options.workspace = {workspace_.data(), workspace_.bytes()};
  kernel.launch(tensors_, problem_, options);
}

template <class Offset>
void DeviceCall::set_offsets(const std::vector<int64_t>& lengths) {
  std::vector<Offset> offsets{0};
  for (int64_t length : lengths) offsets.push_back(static_cast<Offset>(offsets.back() + length));
  const int64_t bytes = static_cast<int64_t>(offsets.size() * sizeof(Offset));
  offsets_ = runtime::DeviceBuffer(ordinal_, bytes);
  offsets_.upload(offsets.data(), bytes);
  problem_.cu_seqlens = offsets_.data();
}

void DeviceCall::add(const runtime::Manifest& manifest, const runtime::TensorInfo& info, Patterns& patterns,
                     const CallForm& form) {
  const runtime::Dims shape = runtime::tensor_shape(manifest, info, problem_);
  const int64_t elements = runtime::element_count(shape), bytes = elements * runtime::size_of(info.dtype);
  if (form.share && !info.may_alias.empty()) {
    const auto input =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& t) { return t.name == info.may_alias; });
    const bool taken =
        std::count_if(tensors_.begin(), tensors_.end(), [&](const auto& t) { return t.data == input->data; }) > 1;
    if (!taken) {  // by another output that repeats it
      tensors_.push_back({info.name, input->data, info.dtype, shape, input->strides, ordinal_});
      bytes_ -= bytes;
      return;
    }
  }
  const int64_t start = form.aligned ? 0 : runtime::size_of(info.dtype);
  memory_.emplace_back(ordinal_, std::max<int64_t>(start + bytes, 1));
  if (info.direction == runtime::Direction::in)
    patterns.fill(memory_.back(), info, elements, start);
  else
    outputs_.emplace_back(info.name, memory_.size() - 1);
  tensors_.push_back({info.name, static_cast<char*>(memory_.back().data()) + start, info.dtype, shape,
                      runtime::contiguous_strides(shape), ordinal_});
  bytes_ += bytes;
}

}  // namespace kdagen
