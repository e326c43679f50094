// SPDX-License-Identifier: Apache-2.0
// Walking through the memory of a strided view.
#pragma once
#include <functional>

#include "runtime/overlap.h"

namespace kdagen::runtime {

/// `rows` pieces of `width` bytes, `pitch` bytes apart, the first at `offset` from the view's base.
struct MemoryBlock {
  std::int64_t offset = 0, width = 0, pitch = 0, rows = 1;
};

/// The fewest blocks that together are exactly the view's elements, by merging dimensions that touch.
void for_each_block(const StridedView& view, const std::function<void(const MemoryBlock&)>& action);

}  // namespace kdagen::runtime
