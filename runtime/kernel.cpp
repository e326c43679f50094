// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel.h"

#include "kdagen/error.h"

namespace kdagen::runtime {

Kernel::Kernel(std::string text, Manifest manifest, KernelOptions options)
    : text_(std::move(text)), manifest_(std::move(manifest)), options_(std::move(options)) {
  validate(manifest_);
}

std::int64_t Kernel::workspace_bytes(const Problem& problem) const {
  check_problem(manifest_, problem);
  return is_empty(problem) ? 0 : workspace_layout(manifest_, problem).bytes;
}

void Kernel::launch(const std::vector<TensorRef>& tensors, const Problem& problem, const LaunchOptions& options) {
  const Binding binding = bind_tensors(manifest_, problem, tensors);
  check_memory(problem, binding);
  if (is_empty(problem))
    zero_outputs(binding, options);
  else
    run(problem, binding, options);
}

}  // namespace kdagen::runtime
