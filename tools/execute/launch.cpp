// SPDX-License-Identifier: Apache-2.0
#include "tools/execute/launch.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tools/execute/placed_tensor.h"

namespace kdagen {
namespace {

int64_t bytes_of(const runtime::TensorRef& tensor) {
  return runtime::element_count(tensor.shape) * runtime::size_of(tensor.dtype);
}

runtime::DeviceBuffer copy_to_device(int ordinal, const void* host, int64_t bytes) {
  runtime::DeviceBuffer buffer(ordinal, std::max<int64_t>(bytes, 1));
  if (bytes > 0) buffer.upload(host, bytes);
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
        output.data = input.data, output.strides = input.strides;
  }
}

/// Outputs go back from the memory that they lie in, their own or an input's.
void read_back(const runtime::Kernel& kernel, const std::vector<PlacedTensor>& placed,
               const std::vector<runtime::TensorRef>& own, const std::vector<runtime::TensorRef>& given) {
  for (size_t i = 0; i < placed.size(); ++i) {
    if (!is_output(kernel, given[i])) continue;
    size_t at = 0;
    while (own[at].data != given[i].data) ++at;
    placed[at].read_back(placed[i].dense().data);
  }
}

void launch_on_device(runtime::Kernel& kernel, const std::vector<PlacedTensor>& placed, runtime::Problem problem,
                      int ordinal, runtime::LaunchOptions options, bool shared) {
  const int64_t offset_bytes =
      problem.packed() ? (problem.sequences + 1) * (problem.offsets == runtime::OffsetType::i64 ? 8 : 4) : 0;
  const runtime::DeviceBuffer offsets = copy_to_device(ordinal, problem.cu_seqlens, offset_bytes);
  if (problem.packed()) problem.cu_seqlens = offsets.data();
  std::vector<runtime::DeviceBuffer> memory;
  std::vector<runtime::TensorRef> own;
  for (const PlacedTensor& tensor : placed) {
    memory.push_back(copy_to_device(ordinal, tensor.memory(), tensor.size()));
    own.push_back(tensor.view(static_cast<char*>(memory.back().data())));
    own.back().device_ordinal = ordinal;
  }
  const runtime::Stream stream(ordinal);
  options.stream = stream.get();
  std::vector<runtime::TensorRef> given = own;
  if (shared) share_memory(kernel, given);
  kernel.launch(given, problem, options);
  stream.synchronize();
  for (size_t i = 0; i < placed.size(); ++i)
    if (shared || is_output(kernel, own[i])) memory[i].download(placed[i].memory(), placed[i].size());
  read_back(kernel, placed, own, given);
}

/// In memory that starts elsewhere than the caller's, with strides of its own.
void launch_on_copies(runtime::Kernel& kernel, const std::vector<PlacedTensor>& placed, const runtime::Problem& problem,
                      const runtime::LaunchOptions& options, bool shared) {
  std::vector<runtime::TensorRef> own;
  for (const PlacedTensor& tensor : placed) own.push_back(tensor.view(tensor.memory()));
  std::vector<runtime::TensorRef> given = own;
  if (shared) share_memory(kernel, given);
  kernel.launch(given, problem, options);
  read_back(kernel, placed, own, given);
}

}  // namespace

void launch_on_host(runtime::Kernel& kernel, TensorBuffers& tensors, const runtime::Problem& problem,
                    int device_ordinal, runtime::LaunchOptions options, const CallersMemory& memory) {
  runtime::check_problem(kernel.manifest(), problem);
  runtime::check_offsets(problem);
  std::vector<runtime::TensorRef> refs;
  for (auto& [name, tensor] : tensors) refs.push_back(runtime::ref(name, tensor));
  const bool device = device_ordinal != on_emulator;
  if (!device && memory.base_offset == 0 && memory.strides == 0 && !memory.shared)
    return kernel.launch(refs, problem, options);
  std::vector<PlacedTensor> placed;
  for (const runtime::TensorRef& tensor : refs) placed.emplace_back(kernel.manifest(), tensor, memory);
  if (device)
    launch_on_device(kernel, placed, problem, device_ordinal, options, memory.shared);
  else
    launch_on_copies(kernel, placed, problem, options, memory.shared);
}

}  // namespace kdagen
