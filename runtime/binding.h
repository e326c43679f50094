// SPDX-License-Identifier: Apache-2.0
// From a caller's tensors to the words and grids of a launch. Everything that can be wrong with a call is refused here,
// before any memory is touched.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/manifest.h"
#include "runtime/overlap.h"
#include "runtime/problem.h"

namespace kdagen::runtime {

/// One tensor of the manifest; `view` is what a call bound to it. Strides in elements, 0 for a dimension that the
/// tensor lacks or that has at most one element.
struct BoundTensor {
  const TensorInfo* info = nullptr;
  bool present = false;
  void* data = nullptr;
  StridedView view;
  std::int64_t batch = 0, token = 0, head = 0, tile = 0, row = 0;
};

struct Binding {
  std::vector<BoundTensor> tensors;  ///< in the manifest's order
  /// Pointers and strides fit every vector_bytes and tensor map: `entry`. Else `entry_any`, as for a packed call with
  /// an output in the memory of an input that has a map.
  bool aligned = false;
  int device_ordinal = -1;  ///< of all tensors; -1 for host memory
};

/// Checks the problem (check_problem) and every tensor against the manifest. UsageError naming the tensor when it is
/// missing, unknown or given twice; has another dtype, rank or shape; a feature stride other than 1, a parameter that
/// is not contiguous, or a negative stride; a null or misaligned pointer; lies on another device than the first one; or
/// is an output that shares memory with another tensor, with cu_seqlens, or with itself.
Binding bind_tensors(const Manifest& manifest, const Problem& problem, const std::vector<TensorRef>& tensors);

/// Refuses a workspace that is too small, not 256-byte aligned, or overlaps a tensor.
void check_workspace(const Binding& binding, const WorkspaceLayout& layout, const void* workspace, std::int64_t bytes);

/// 128 bytes of the argument struct that tell a copy engine where a tensor's rows lie (runtime/tensor_map.h).
inline constexpr int tensor_map_words = 16;
using TensorMapWords = std::array<std::uint64_t, tensor_map_words>;
using TensorMapMaker = std::function<TensorMapWords(const BoundTensor&, int box_rows)>;

/// The argument struct: one 8-byte word after another, in the manifest's order. `make_map` is asked for the maps of an
/// aligned binding; `entry_any` uses none, and gets zeros.
std::vector<std::uint64_t> build_words(const Manifest& manifest, const Problem& problem, const Binding& binding,
                                       const WorkspaceLayout& layout, void* workspace,
                                       const TensorMapMaker& make_map = {});

struct LaunchStep {
  const LaunchInfo* info = nullptr;
  std::string entry;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
};

/// The launches whose `when` holds, in order; those with an empty grid are left out. UsageError when a grid exceeds
/// 2^31-1 x 65535 x 65535 blocks.
std::vector<LaunchStep> launch_steps(const Manifest& manifest, const Problem& problem, const Binding& binding);

}  // namespace kdagen::runtime
