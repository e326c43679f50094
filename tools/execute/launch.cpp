// SPDX-License-Identifier: Apache-2.0
#include "tools/execute/launch.h"

#include <algorithm>

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

void launch_on_device(runtime::Kernel& kernel, std::vector<runtime::TensorRef> tensors, runtime::Problem problem,
                      int ordinal, runtime::LaunchOptions options) {
  const int64_t offset_bytes =
      problem.packed() ? (problem.sequences + 1) * (problem.offsets == runtime::OffsetType::i64 ? 8 : 4) : 0;
  const runtime::DeviceBuffer offsets = copy_to_device(ordinal, problem.cu_seqlens, offset_bytes);
  if (problem.packed()) problem.cu_seqlens = offsets.data();
  std::vector<runtime::DeviceBuffer> memory;
  std::vector<void*> host;
  for (runtime::TensorRef& tensor : tensors) {
    memory.push_back(copy_to_device(ordinal, tensor.data, bytes_of(tensor)));
    host.push_back(tensor.data);
    tensor.data = memory.back().data();
    tensor.device_ordinal = ordinal;
  }
  const runtime::Stream stream(ordinal);
  options.stream = stream.get();
  kernel.launch(tensors, problem, options);
  stream.synchronize();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const runtime::TensorInfo* info = kernel.manifest().find_tensor(tensors[i].name);
    if (info->direction == runtime::Direction::out && bytes_of(tensors[i]) > 0)
      memory[i].download(host[i], bytes_of(tensors[i]));
  }
}

}  // namespace

void launch_on_host(runtime::Kernel& kernel, TensorBuffers& tensors, const runtime::Problem& problem, int device_ordinal,
                    runtime::LaunchOptions options) {
  runtime::check_problem(kernel.manifest(), problem);
  runtime::check_offsets(problem);
  std::vector<runtime::TensorRef> refs;
  for (auto& [name, tensor] : tensors) refs.push_back(runtime::ref(name, tensor));
  if (device_ordinal == on_emulator) kernel.launch(refs, problem, options);
  else launch_on_device(kernel, std::move(refs), problem, device_ordinal, options);
}

}  // namespace kdagen
