// SPDX-License-Identifier: Apache-2.0
// The sizes of one call: what the manifest's symbols, shapes and workspace come to.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/manifest.h"

namespace kdagen::runtime {

/// Up to eight extents or strides, without allocation.
class Dims {
 public:
  static constexpr std::size_t max_rank = 8;
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) { assign(values.begin(), values.size()); }
  Dims(const std::vector<std::int64_t>& values) { assign(values.data(), values.size()); }
  Dims(const std::int64_t* values, std::size_t rank) { assign(values, rank); }

  std::size_t size() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  std::int64_t operator[](std::size_t i) const { return values_[i]; }
  std::int64_t& operator[](std::size_t i) { return values_[i]; }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + rank_; }
  /// UsageError past max_rank.
  void push_back(std::int64_t value);
  bool operator==(const Dims& other) const;

 private:
  void assign(const std::int64_t* values, std::size_t rank);
  std::array<std::int64_t, max_rank> values_{};
  std::size_t rank_ = 0;
};

/// "[1,300,4,128]"
std::string to_string(const Dims& dims);

enum class OffsetType : std::uint8_t { none, i32, i64 };

/// Fixed length: `batch` rows of `tokens` tokens. Packed (offsets != none): batch is 1, the token buffer holds `tokens`
/// rows, and cu_seqlens[0..sequences] are the offsets, on the device of the tensors.
struct Problem {
  std::int64_t batch = 1, tokens = 0, heads = 1, sequences = 0;
  const void* cu_seqlens = nullptr;
  OffsetType offsets = OffsetType::none;

  bool packed() const { return offsets != OffsetType::none; }
};

/// A tensor as a caller hands it over. Strides are in elements. `device_ordinal` is -1 for host memory.
struct TensorRef {
  std::string name;
  void* data = nullptr;
  DType dtype = DType::f32;
  Dims shape;
  Dims strides;
  int device_ordinal = -1;
};

/// Negative sizes, cu_seqlens with batch > 1, an offsets type without a pointer or the reverse, sizes whose products
/// leave 63 bits: UsageError.
void check_problem(const Manifest& manifest, const Problem& problem);

/// No row to work on (batch, tokens, heads or packed sequences are 0): outputs are zeroed and nothing is launched.
bool is_empty(const Problem& problem);

/// Tile capacity: batch * ceil(tokens / chunk), or packed ceil(tokens / chunk) + sequences.
std::int64_t tile_count(const Manifest& manifest, const Problem& problem);

/// The size symbols: tokens batch heads sequences (batch when not packed) sequences_plus_1 offset_bytes (of cu_seqlens:
/// 4 or 8; 0 when not packed) tiles segments dim chunk, tile_blocks (of a launch with `tiles_per_block`),
/// tiles_per_segment, and decimal numbers. UsageError otherwise.
std::int64_t evaluate_symbol(std::string_view symbol, const Manifest& manifest, const Problem& problem,
                             std::int64_t tiles_per_block = 1);
std::int64_t evaluate_product(const Product& product, const Manifest& manifest, const Problem& problem,
                              std::int64_t tiles_per_block = 1);
/// Whether evaluate_symbol knows it; tile_blocks only `in_grid`.
bool is_size_symbol(std::string_view symbol, bool in_grid);

/// What each dimension of a tensor in memory counts.
enum class DimRole : std::uint8_t { batch, tokens, head, feature, tile, chunk_row, subchunk };
inline constexpr std::size_t dim_roles = 7;
/// Dimensions of a tensor in memory order (docs/architecture.md, section 3).
std::vector<DimRole> dimensions(const Manifest& manifest, const TensorInfo& tensor);
/// Whether the tensor has one value (or feature row) a token.
bool is_row_tensor(const Manifest& manifest, const TensorInfo& tensor);

std::int64_t extent(DimRole role, const Manifest& manifest, const Problem& problem);
Dims tensor_shape(const Manifest& manifest, const TensorInfo& tensor, const Problem& problem);
/// The shape in letters: "[B,T,H,D]", "[H,tiles,C]", "[]".
std::string shape_letters(const Manifest& manifest, const TensorInfo& tensor);
/// Row-major strides.
Dims contiguous_strides(const Dims& shape);
/// Product of the extents, UsageError on overflow.
std::int64_t element_count(const Dims& shape);

struct WorkspaceSlot {
  std::string name;
  std::int64_t offset = 0, bytes = 0;  ///< from the base, which must be 256-byte aligned
};
struct WorkspaceLayout {
  std::vector<WorkspaceSlot> slots;  ///< in the manifest's order
  std::int64_t bytes = 0;            ///< a multiple of 256
};
inline constexpr std::int64_t workspace_alignment = 256;
WorkspaceLayout workspace_layout(const Manifest& manifest, const Problem& problem);

/// Sizes read off the tensors handed over, for callers that have tensors but no numbers: each is what most tensors say,
/// so that binding names the one that is at odds with the others; of two that disagree, the manifest's first is right.
/// cu_seqlens may be absent (null). Tensors unknown to the manifest are ignored here
/// and refused at binding. UsageError when no tensor tells the tokens, or cu_seqlens is no 1-D i32 or i64 tensor.
Problem problem_of(const Manifest& manifest, const std::vector<TensorRef>& tensors, const TensorRef* cu_seqlens);

/// Offsets in host memory: start at 0, never fall, end within `tokens`. UsageError naming the first bad entry.
void check_offsets(const Problem& problem);

/// a*b, a+b and ceil(a/b) of non-negative numbers; UsageError on overflow.
std::int64_t checked_multiply(std::int64_t a, std::int64_t b);
std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t ceil_divide(std::int64_t a, std::int64_t b);

}  // namespace kdagen::runtime
