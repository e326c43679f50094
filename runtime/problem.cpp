// SPDX-License-Identifier: Apache-2.0
#include "runtime/problem.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kdagen/error.h"

namespace kdagen::runtime {
namespace {

bool has_role(const Manifest& manifest, const TensorInfo& tensor, AxisRole role) {
  return std::any_of(tensor.axes.begin(), tensor.axes.end(),
                     [&](const std::string& name) { return axis_role(manifest, name) == role; });
}

std::optional<std::int64_t> decimal(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || text[0] == '-') return std::nullopt;
  return value;
}

/// What most tensors say of a size; where none is in front, what is said first.
class Votes {
 public:
  void add(std::int64_t value) {
    const auto same =
        std::find_if(counts_.begin(), counts_.end(), [&](const auto& entry) { return entry.first == value; });
    if (same == counts_.end())
      counts_.emplace_back(value, 1);
    else
      ++same->second;
  }
  std::optional<std::int64_t> winner() const {
    const auto most = std::max_element(counts_.begin(), counts_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == counts_.end() ? std::nullopt : std::optional(most->first);
  }

 private:
  std::vector<std::pair<std::int64_t, int>> counts_;
};

constexpr std::string_view size_symbols[] = {"tokens",           "batch", "heads",    "sequences", "sequences_plus_1",
                                             "offset_bytes",     "tiles", "segments", "dim",       "chunk",
                                             "tiles_per_segment"};

}  // namespace

void Dims::push_back(std::int64_t value) {
  if (rank_ == max_rank) throw UsageError(fmt::format("a tensor has more than {} dimensions", max_rank));
  values_[rank_++] = value;
}

bool Dims::operator==(const Dims& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

void Dims::assign(const std::int64_t* values, std::size_t rank) {
  for (std::size_t i = 0; i < rank; ++i) push_back(values[i]);
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims.begin(), dims.end(), ",")); }

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) throw UsageError(fmt::format("the size {} * {} leaves 63 bits", a, b));
  return product;
}

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) throw UsageError(fmt::format("the size {} + {} leaves 63 bits", a, b));
  return sum;
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

void check_problem(const Manifest& manifest, const Problem& problem) {
  const auto negative = [](std::string_view what, std::int64_t value) {
    if (value < 0) throw UsageError(fmt::format("{} is {}; it must not be negative", what, value));
  };
  negative("batch", problem.batch);
  negative("tokens", problem.tokens);
  negative("heads", problem.heads);
  negative("sequences", problem.sequences);
  const bool takes_offsets = std::any_of(manifest.arguments.begin(), manifest.arguments.end(),
                                         [](const ArgumentInfo& a) { return a.kind == ArgumentKind::cu_seqlens; });
  if (problem.packed()) {
    if (!takes_offsets)
      throw UsageError(fmt::format("{} takes no cu_seqlens: it was emitted for fixed length", manifest.kernel));
    if (problem.batch > 1)
      throw UsageError(fmt::format("cu_seqlens goes with batch 1, not {}: view the tensors as one row of all tokens",
                                   problem.batch));
    if (!problem.cu_seqlens && problem.sequences > 0) throw UsageError("cu_seqlens is null");
    if (reinterpret_cast<std::uintptr_t>(problem.cu_seqlens) % (problem.offsets == OffsetType::i64 ? 8 : 4) != 0)
      throw UsageError("cu_seqlens is not aligned to its element size");
  } else if (problem.cu_seqlens) {
    throw UsageError("cu_seqlens is given without its dtype (i32 or i64)");
  }
  // Every tensor and workspace is a product of a part of these sizes and at most 8 bytes an element.
  const std::int64_t width = checked_multiply(checked_multiply(problem.heads, manifest.dim), 8);
  checked_multiply(checked_multiply(problem.batch, problem.tokens), width);
  checked_multiply(checked_multiply(tile_count(manifest, problem), manifest.chunk), width);
}

bool is_empty(const Problem& problem) {
  return problem.batch == 0 || problem.tokens == 0 || problem.heads == 0 ||
         (problem.packed() && problem.sequences == 0);
}

std::int64_t tile_count(const Manifest& manifest, const Problem& problem) {
  const std::int64_t tiles = ceil_divide(problem.tokens, manifest.chunk);
  return problem.packed() ? checked_add(tiles, problem.sequences) : checked_multiply(problem.batch, tiles);
}

bool is_size_symbol(std::string_view symbol, bool in_grid) {
  if (in_grid && symbol == "tile_blocks") return true;
  return std::find(std::begin(size_symbols), std::end(size_symbols), symbol) != std::end(size_symbols) ||
         decimal(symbol).has_value();
}

std::int64_t evaluate_symbol(std::string_view symbol, const Manifest& manifest, const Problem& problem,
                             std::int64_t tiles_per_block) {
  const std::int64_t sequences = problem.packed() ? problem.sequences : problem.batch;
  if (symbol == "tokens") return problem.tokens;
  if (symbol == "batch") return problem.batch;
  if (symbol == "heads") return problem.heads;
  if (symbol == "sequences") return sequences;
  if (symbol == "sequences_plus_1") return checked_add(sequences, 1);
  if (symbol == "offset_bytes") return problem.offsets == OffsetType::i64 ? 8 : problem.packed() ? 4 : 0;
  if (symbol == "tiles") return tile_count(manifest, problem);
  if (symbol == "segments") return ceil_divide(tile_count(manifest, problem), manifest.tiles_per_segment);
  if (symbol == "tile_blocks") return ceil_divide(tile_count(manifest, problem), tiles_per_block);
  if (symbol == "dim") return manifest.dim;
  if (symbol == "chunk") return manifest.chunk;
  if (symbol == "tiles_per_segment") return manifest.tiles_per_segment;
  if (const auto number = decimal(symbol)) return *number;
  throw UsageError(fmt::format("manifest: \"{}\" is no size", symbol));
}

std::int64_t evaluate_product(const Product& product, const Manifest& manifest, const Problem& problem,
                              std::int64_t tiles_per_block) {
  std::int64_t value = 1;
  for (const std::string& factor : product)
    value = checked_multiply(value, evaluate_symbol(factor, manifest, problem, tiles_per_block));
  return value;
}

bool is_row_tensor(const Manifest& manifest, const TensorInfo& tensor) {
  return has_role(manifest, tensor, AxisRole::rows) && tensor.subchunk_rows == 0;
}

std::vector<DimRole> dimensions(const Manifest& manifest, const TensorInfo& tensor) {
  std::vector<DimRole> dims;
  if (tensor.layout == Layout::param) {
    for (const std::string& axis : tensor.axes)
      dims.push_back(axis_role(manifest, axis) == AxisRole::head ? DimRole::head : DimRole::feature);
    return dims;
  }
  const bool rows = is_row_tensor(manifest, tensor), head = has_role(manifest, tensor, AxisRole::head);
  const auto add = [&](DimRole role, bool present = true) {
    if (present) dims.push_back(role);
  };
  const bool per_tile = !rows || tensor.layout == Layout::tile;
  const bool head_first = tensor.layout != Layout::bthd;
  add(DimRole::batch, !per_tile);
  add(DimRole::head, head && head_first);
  add(per_tile ? DimRole::tile : DimRole::tokens);
  add(DimRole::chunk_row, per_tile && rows);
  add(DimRole::subchunk, tensor.subchunk_rows > 0);
  add(DimRole::head, head && !head_first);
  add(DimRole::feature, has_role(manifest, tensor, AxisRole::feature));
  return dims;
}

std::int64_t extent(DimRole role, const Manifest& manifest, const Problem& problem) {
  switch (role) {
    case DimRole::batch:
      return problem.batch;
    case DimRole::tokens:
      return problem.tokens;
    case DimRole::head:
      return problem.heads;
    case DimRole::feature:
      return manifest.dim;
    case DimRole::tile:
      return tile_count(manifest, problem);
    case DimRole::chunk_row:
      return manifest.chunk;
    case DimRole::subchunk:
      return 0;  // a matter of the tensor
  }
  throw KdagenBug("unknown dimension");
}

Dims tensor_shape(const Manifest& manifest, const TensorInfo& tensor, const Problem& problem) {
  Dims shape;
  for (const DimRole role : dimensions(manifest, tensor))
    shape.push_back(role == DimRole::subchunk ? ceil_divide(manifest.chunk, tensor.subchunk_rows)
                                              : extent(role, manifest, problem));
  return shape;
}

std::string shape_letters(const Manifest& manifest, const TensorInfo& tensor) {
  std::vector<std::string_view> letters;
  for (const DimRole role : dimensions(manifest, tensor)) {
    constexpr std::string_view names[] = {"B", "T", "H", "D", "tiles", "C", "sub-chunks"};
    letters.push_back(names[static_cast<std::size_t>(role)]);
  }
  return fmt::format("[{}]", fmt::join(letters, ","));
}

Dims contiguous_strides(const Dims& shape) {
  Dims strides = shape;
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride = checked_multiply(stride, std::max<std::int64_t>(shape[i], 1));
  }
  return strides;
}

std::int64_t element_count(const Dims& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count = checked_multiply(count, extent);
  return count;
}

WorkspaceLayout workspace_layout(const Manifest& manifest, const Problem& problem) {
  WorkspaceLayout layout;
  for (const WorkspaceInfo& info : manifest.workspace) {
    const std::int64_t bytes =
        checked_multiply(evaluate_product(info.elements, manifest, problem), size_of(info.dtype));
    layout.slots.push_back({info.name, layout.bytes, bytes});
    const std::int64_t end = checked_add(checked_add(layout.bytes, bytes), workspace_alignment - 1);
    layout.bytes = end / workspace_alignment * workspace_alignment;
  }
  return layout;
}

Problem problem_of(const Manifest& manifest, const std::vector<TensorRef>& tensors, const TensorRef* cu_seqlens) {
  Votes batch, tokens, heads;
  for (const TensorInfo& info : manifest.tensors) {
    const auto tensor =
        std::find_if(tensors.begin(), tensors.end(), [&](const TensorRef& t) { return t.name == info.name; });
    if (tensor == tensors.end()) continue;
    const std::vector<DimRole> roles = dimensions(manifest, info);
    if (roles.size() != tensor->shape.size()) continue;  // binding reports it
    for (std::size_t i = 0; i < roles.size(); ++i) {
      if (roles[i] == DimRole::batch) batch.add(tensor->shape[i]);
      if (roles[i] == DimRole::tokens) tokens.add(tensor->shape[i]);
      if (roles[i] == DimRole::head) heads.add(tensor->shape[i]);
    }
  }
  Problem problem;
  problem.batch = batch.winner().value_or(1);
  problem.tokens = tokens.winner().value_or(0);
  problem.heads = heads.winner().value_or(1);
  if (!tokens.winner())
    throw UsageError("no tensor with batch and token dimensions is given, so the sizes are unknown");
  problem.sequences = problem.batch;
  if (!cu_seqlens) return problem;
  if (cu_seqlens->dtype != DType::i32 && cu_seqlens->dtype != DType::i64)
    throw UsageError(fmt::format("cu_seqlens has the dtype {}; expected i32 or i64", name_of(cu_seqlens->dtype)));
  const bool one_dimension = cu_seqlens->shape.size() == 1 && cu_seqlens->strides.size() == 1;
  if (!one_dimension || cu_seqlens->shape[0] < 1 || (cu_seqlens->shape[0] > 1 && cu_seqlens->strides[0] != 1))
    throw UsageError("cu_seqlens must be contiguous with one dimension of at least one element");
  problem.sequences = cu_seqlens->shape[0] - 1;
  problem.cu_seqlens = cu_seqlens->data;
  problem.offsets = cu_seqlens->dtype == DType::i32 ? OffsetType::i32 : OffsetType::i64;
  return problem;
}

void check_offsets(const Problem& problem) {
  if (!problem.packed() || !problem.cu_seqlens) return;
  const auto offset = [&](std::int64_t i) -> std::int64_t {
    if (problem.offsets == OffsetType::i64) return static_cast<const std::int64_t*>(problem.cu_seqlens)[i];
    return static_cast<const std::int32_t*>(problem.cu_seqlens)[i];
  };
  if (offset(0) != 0) throw UsageError(fmt::format("cu_seqlens[0] is {}; it must be 0", offset(0)));
  for (std::int64_t i = 1; i <= problem.sequences; ++i)
    if (offset(i) < offset(i - 1))
      throw UsageError(
          fmt::format("cu_seqlens[{}] is {}, below cu_seqlens[{}] = {}", i, offset(i), i - 1, offset(i - 1)));
  if (offset(problem.sequences) > problem.tokens)
    throw UsageError(fmt::format("cu_seqlens[{}] is {}, past the {} tokens of the tensors", problem.sequences,
                                 offset(problem.sequences), problem.tokens));
}

}  // namespace kdagen::runtime
