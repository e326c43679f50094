// SPDX-License-Identifier: Apache-2.0
#include "runtime/runs.h"

#include <algorithm>
#include <vector>

namespace kdagen::runtime {

void for_each_block(const StridedView& view, const std::function<void(const MemoryBlock&)>& action) {
  struct Dimension {
    std::int64_t stride, extent;
  };
  std::vector<Dimension> dims;
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == 0) return;
    if (view.shape[i] > 1) dims.push_back({view.strides[i], view.shape[i]});
  }
  std::sort(dims.begin(), dims.end(), [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  MemoryBlock block{0, view.element_bytes, view.element_bytes, 1};
  std::size_t used = 0;
  while (used < dims.size() && dims[used].stride == block.width) block.width *= dims[used++].extent;
  block.pitch = block.width;
  if (used < dims.size()) {
    block.pitch = dims[used].stride;
    block.rows = dims[used++].extent;
    while (used < dims.size() && dims[used].stride == block.pitch * block.rows) block.rows *= dims[used++].extent;
  }
  dims.erase(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(used));
  std::vector<std::int64_t> index(dims.size(), 0);
  while (true) {
    action(block);
    std::size_t d = 0;
    for (; d < dims.size(); ++d) {
      block.offset += dims[d].stride;
      if (++index[d] < dims[d].extent) break;
      block.offset -= dims[d].stride * dims[d].extent;
      index[d] = 0;
    }
    if (d == dims.size()) return;
  }
}

}  // namespace kdagen::runtime
