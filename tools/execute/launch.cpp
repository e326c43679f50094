// SPDX-License-Identifier: Apache-2.0
#include "tools/execute/launch.h"

#include <algorithm>
#include <cstring>

namespace kdagen {
namespace {

int64_t bytes_of(const runtime::TensorRef& tensor) {
  return runtime::element_count(tensor.shape) * runtime::size_of(tensor.dtype);
}

/// How far from an aligned address a tensor begins.
int64_t shift_of(const runtime::TensorRef& tensor, Placement placement) {
  return placement == Placement::shifted ? runtime::size_of(tensor.dtype) : 0;
}

runtime::DeviceBuffer copy_to_device(int ordinal, const void* host, int64_t bytes, int64_t shift = 0) {
  runtime::DeviceBuffer buffer(ordinal, std::max<int64_t>(bytes + shift, 1));
  if (bytes > 0) buffer.upload(host, bytes, shift);
  return buffer;
}

bool is_output(const runtime::Kernel& kernel, const runtime::TensorRef& tensor) {
  const runtime::TensorInfo* info = kernel.manifest().find_tensor(tensor.name);
  return info && info->direction == runtime::Direction::out;
}

void launch_on_shifted_copies(runtime::Kernel& kernel, const std::vector<runtime::TensorRef>& tensors,
                              const runtime::Problem& problem, const runtime::LaunchOptions& options) {
  std::vector<runtime::TensorRef> copies = tensors;
  std::vector<std::vector<std::byte>> memory;
  for (runtime::TensorRef& copy : copies) {
    const int64_t bytes = bytes_of(copy), shift = shift_of(copy, Placement::shifted);
    memory.emplace_back(bytes + shift);
    if (bytes > 0) std::memcpy(memory.back().data() + shift, copy.data, bytes);
    copy.data = memory.back().data() + shift;
  }
  kernel.launch(copies, problem, options);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (is_output(kernel, tensors[i]) && bytes_of(tensors[i]) > 0)
      std::memcpy(tensors[i].data, copies[i].data, bytes_of(tensors[i]));
}

void launch_on_device(runtime::Kernel& kernel, std::vector<runtime::TensorRef> tensors, runtime::Problem problem,
                      int ordinal, runtime::LaunchOptions options, Placement placement) {
  const int64_t offset_bytes =
      problem.packed() ? (problem.sequences + 1) * (problem.offsets == runtime::OffsetType::i64 ? 8 : 4) : 0;
  const runtime::DeviceBuffer offsets = copy_to_device(ordinal, problem.cu_seqlens, offset_bytes);
  if (problem.packed()) problem.cu_seqlens = offsets.data();
  std::vector<runtime::DeviceBuffer> memory;
  std::vector<void*> host;
  for (runtime::TensorRef& tensor : tensors) {
    memory.push_back(copy_to_device(ordinal, tensor.data, bytes_of(tensor), shift_of(tensor, placement)));
    host.push_back(tensor.data);
    tensor.data = static_cast<std::byte*>(memory.back().data()) + shift_of(tensor, placement);
    tensor.device_ordinal = ordinal;
  }
  const runtime::Stream stream(ordinal);
  options.stream = stream.get();
  kernel.launch(tensors, problem, options);
  stream.synchronize();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_output(kernel, tensors[i]) && bytes_of(tensors[i]) > 0)
      memory[i].download(host[i], bytes_of(tensors[i]), shift_of(tensors[i], placement));
  }
}

}  // namespace

void launch_on_host(runtime::Kernel& kernel, TensorBuffers& tensors, const runtime::Problem& problem, int device_ordinal,
                    runtime::LaunchOptions options, Placement placement) {
  runtime::check_problem(kernel.manifest(), problem);
  runtime::check_offsets(problem);
  std::vector<runtime::TensorRef> refs;
  for (auto& [name, tensor] : tensors) refs.push_back(runtime::ref(name, tensor));
  if (device_ordinal != on_emulator) launch_on_device(kernel, std::move(refs), problem, device_ordinal, options, placement);
  else if (placement == Placement::shifted) launch_on_shifted_copies(kernel, refs, problem, options);
  else kernel.launch(refs, problem, options);
}

}  // namespace kdagen
