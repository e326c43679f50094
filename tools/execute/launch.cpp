// SPDX-License-Identifier: Apache-2.0
#include "tools/execute/launch.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace kdagen {
namespace {

int64_t bytes_of(const runtime::TensorRef& tensor) {
  return runtime::element_count(tensor.shape) * runtime::size_of(tensor.dtype);
}

/// Where a tensor starts in memory of its own: the wanted offset, on an element's boundary.
int64_t start_of(const runtime::TensorRef& tensor, int64_t base_offset) {
  const int64_t size = runtime::size_of(tensor.dtype);
  return runtime::ceil_divide(base_offset, size) * size;
}

runtime::DeviceBuffer copy_to_device(int ordinal, const void* host, int64_t bytes, int64_t start = 0) {
  runtime::DeviceBuffer buffer(ordinal, start + std::max<int64_t>(bytes, 1));
  if (bytes > 0) buffer.upload(host, bytes, start);
  return buffer;
}

bool is_output(const runtime::Kernel& kernel, const runtime::TensorRef& tensor) {
  const runtime::TensorInfo* info = kernel.manifest().find_tensor(tensor.name);
  return info && info->direction == runtime::Direction::out && bytes_of(tensor) > 0;
}

/// Outputs that repeat an input move into its memory, if they are as large; the first of those that repeat the same.
void share_memory(const runtime::Kernel& kernel, std::vector<runtime::TensorRef>& tensors) {
  std::set<std::string> taken;
  for (runtime::TensorRef& output : tensors) {
    const runtime::TensorInfo* info = kernel.manifest().find_tensor(output.name);
    if (!info || info->may_alias.empty()) continue;
    for (const runtime::TensorRef& input : tensors)
      if (input.name == info->may_alias && input.dtype == output.dtype && bytes_of(input) == bytes_of(output) &&
          taken.insert(input.name).second)
        output.data = input.data;
  }
}

void launch_on_device(runtime::Kernel& kernel, std::vector<runtime::TensorRef> tensors, runtime::Problem problem,
                      int ordinal, runtime::LaunchOptions options, int64_t base_offset, bool shared) {
  const int64_t offset_bytes =
      problem.packed() ? (problem.sequences + 1) * (problem.offsets == runtime::OffsetType::i64 ? 8 : 4) : 0;
  const runtime::DeviceBuffer offsets = copy_to_device(ordinal, problem.cu_seqlens, offset_bytes);
  if (problem.packed()) problem.cu_seqlens = offsets.data();
  std::vector<runtime::DeviceBuffer> memory;
  std::vector<void*> host;
  for (runtime::TensorRef& tensor : tensors) {
    const int64_t start = start_of(tensor, base_offset);
    memory.push_back(copy_to_device(ordinal, tensor.data, bytes_of(tensor), start));
    host.push_back(tensor.data);
    tensor.data = static_cast<char*>(memory.back().data()) + start;
    tensor.device_ordinal = ordinal;
  }
  const runtime::Stream stream(ordinal);
  options.stream = stream.get();
  std::vector<runtime::TensorRef> given = tensors;
  if (shared) share_memory(kernel, given);
  kernel.launch(given, problem, options);
  stream.synchronize();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!is_output(kernel, tensors[i])) continue;
    size_t at = 0;  // whose memory it lies in: its own or an input's
    while (tensors[at].data != given[i].data) ++at;
    memory[at].download(host[i], bytes_of(tensors[i]), start_of(tensors[at], base_offset));
  }
}

/// In memory that starts elsewhere than the caller's.
void launch_on_copies(runtime::Kernel& kernel, std::vector<runtime::TensorRef> tensors, const runtime::Problem& problem,
                      const runtime::LaunchOptions& options, int64_t base_offset, bool shared) {
  constexpr int64_t alignment = 256;
  std::vector<std::vector<char>> memory;
  std::vector<void*> host;
  for (runtime::TensorRef& tensor : tensors) {
    const int64_t start = start_of(tensor, base_offset), bytes = bytes_of(tensor);
    std::vector<char>& own = memory.emplace_back(alignment + start + bytes);
    const int64_t aligned = -reinterpret_cast<std::uintptr_t>(own.data()) % alignment;
    host.push_back(std::exchange(tensor.data, own.data() + aligned + start));
    if (bytes > 0) std::memcpy(tensor.data, host.back(), bytes);
  }
  if (shared) share_memory(kernel, tensors);
  kernel.launch(tensors, problem, options);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (is_output(kernel, tensors[i])) std::memcpy(host[i], tensors[i].data, bytes_of(tensors[i]));
}

}  // namespace

void launch_on_host(runtime::Kernel& kernel, TensorBuffers& tensors, const runtime::Problem& problem,
                    int device_ordinal, runtime::LaunchOptions options, const CallersMemory& memory) {
  runtime::check_problem(kernel.manifest(), problem);
  runtime::check_offsets(problem);
  std::vector<runtime::TensorRef> refs;
  for (auto& [name, tensor] : tensors) refs.push_back(runtime::ref(name, tensor));
  if (device_ordinal != on_emulator)
    launch_on_device(kernel, std::move(refs), problem, device_ordinal, options, memory.base_offset, memory.shared);
  else if (memory.base_offset > 0 || memory.shared)
    launch_on_copies(kernel, std::move(refs), problem, options, memory.base_offset, memory.shared);
  else
    kernel.launch(refs, problem, options);
}

}  // namespace kdagen
