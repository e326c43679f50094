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

}  // namespace kdagen::runtime
