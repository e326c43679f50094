// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor_map.h"

#include <cstring>

#include "kdagen/error.h"
#include "runtime/driver.h"

namespace kdagen::runtime {

TensorBox tensor_box(const Manifest& manifest, const Problem& problem, const BoundTensor& tensor, int box_rows) {
  const auto count = [&](const char* symbol) {
    return static_cast<std::uint64_t>(evaluate_symbol(symbol, manifest, problem));
  };
  bool rows = is_row_tensor(manifest, *tensor.info), heads = false;
  for (const std::string& axis : tensor.info->axes) heads = heads || axis_role(manifest, axis) == AxisRole::head;
  const std::uint64_t dim = static_cast<std::uint64_t>(manifest.dim),
                      chunk = static_cast<std::uint64_t>(manifest.chunk);
  const std::uint64_t head_count = heads ? count("heads") : 1;
  const bool by_tiles = !rows || tensor.info->layout == Layout::tile;
  TensorBox box;
  box.dtype = tensor.info->dtype;
  box.base = tensor.view.base;
  box.box_rows = static_cast<std::uint32_t>(box_rows);
  if (by_tiles) {
    box.extents = {dim, rows ? chunk : 1, count("tiles"), head_count};
  } else {
    box.extents = {dim, count("tokens"), head_count, count("batch")};
  }
  const std::array<std::int64_t, 3> strides =
      by_tiles ? std::array{tensor.row, tensor.tile, tensor.head} : std::array{tensor.token, tensor.head, tensor.batch};
  const auto element = static_cast<std::uint64_t>(size_of(box.dtype));
  for (std::size_t i = 0; i < 3; ++i)
    box.strides[i] = strides[i] != 0 ? static_cast<std::uint64_t>(strides[i]) * element : dim * element;
  return box;
}

TensorMapWords cuda_tensor_map(const TensorBox& box) {
  // Values of the driver's CUtensorMapDataType, ...Interleave, ...Swizzle, ...L2promotion and ...FloatOOBfill.
  constexpr int uint8 = 0, float16 = 6, float32 = 7, bfloat16 = 9;
  constexpr int no_interleave = 0, no_swizzle = 0, promote_256_bytes = 3, fill_with_zeros = 0;
  if (!driver().TensorMapEncodeTiled) throw ToolchainError("the driver is older than 12.0 and has no tensor maps");
  int dtype = uint8;
  if (box.dtype == DType::f32) dtype = float32;
  if (box.dtype == DType::bf16) dtype = bfloat16;
  if (box.dtype == DType::fp16) dtype = float16;
  const std::uint32_t sizes[4] = {static_cast<std::uint32_t>(box.extents[0]), box.box_rows, 1, 1},
                      steps[4] = {1, 1, 1, 1};
  alignas(64) TensorMapWords words{};
  check_driver(driver().TensorMapEncodeTiled(words.data(), dtype, 4, reinterpret_cast<void*>(box.base),
                                             box.extents.data(), box.strides.data(), sizes, steps, no_interleave,
                                             no_swizzle, promote_256_bytes, fill_with_zeros),
               "describe a tensor to the copy engine");
  return words;
}

}  // namespace kdagen::runtime
