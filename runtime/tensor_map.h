// SPDX-License-Identifier: Apache-2.0
// Tensor maps: how the copy engine of a GPU (and its emulated twin) is told where a tensor's rows lie.
#pragma once
#include <array>
#include <cstdint>

#include "runtime/binding.h"

namespace kdagen::runtime {

/// A tensor of rows of features in four dimensions, innermost first: features; then tokens, heads, batch rows, or, for
/// a tensor stored tile by tile, rows of a tile, tiles, heads. A box is `box_rows` consecutive rows.
struct TensorBox {
  DType dtype = DType::f32;
  std::uintptr_t base = 0;
  std::array<std::uint64_t, 4> extents{1, 1, 1, 1};  ///< elements
  std::array<std::uint64_t, 3> strides{};            ///< bytes, of the dimensions after the first
  std::uint32_t box_rows = 1;
};

/// The map of a bound tensor; strides of dimensions with one element are made to fit.
TensorBox tensor_box(const Manifest& manifest, const Problem& problem, const BoundTensor& tensor, int box_rows);

/// By the driver, for the current context; ToolchainError when it has no tensor maps or refuses this one.
TensorMapWords cuda_tensor_map(const TensorBox& box);

}  // namespace kdagen::runtime
