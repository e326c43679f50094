// SPDX-License-Identifier: Apache-2.0
// Whether two strided views of memory share a byte. Views interleaved in one buffer (slices of a fused output) do not.
#pragma once
#include <cstdint>

#include "runtime/problem.h"

namespace kdagen::runtime {

/// Elements at base + sum(index_k * stride_k); strides and sizes in bytes, strides >= 0.
struct StridedView {
  std::uintptr_t base = 0;
  std::int64_t element_bytes = 1;
  Dims shape, strides;
};

/// One past the last byte; `base` for a view without elements. UsageError when it leaves the address space.
std::uintptr_t end_of(const StridedView& view);

/// Exact, except that a search that gets too long answers true.
bool may_overlap(const StridedView& a, const StridedView& b);

/// Whether two different indices can mean the same byte; a layout that cannot be shown free of it counts as yes.
bool overlaps_itself(const StridedView& view);

}  // namespace kdagen::runtime
