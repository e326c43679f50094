// SPDX-License-Identifier: Apache-2.0
#include "tools/execute/placed_tensor.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <kdagen/error.h>

namespace kdagen {
namespace {

constexpr char gap_byte = char(0xff);
/// Behind the tensor, where a row too many would be written.
constexpr int64_t rest_bytes = 256;
constexpr int64_t alignment = 256;

bool has_feature(const runtime::Manifest& manifest, const runtime::TensorInfo& info) {
  const std::vector<runtime::DimRole> roles = runtime::dimensions(manifest, info);
  return !roles.empty() && roles.back() == runtime::DimRole::feature;
}

/// Whether the elements are the same for every index in this dimension.
bool repeats(const runtime::TensorRef& dense, size_t dim) {
  const int64_t step = runtime::contiguous_strides(dense.shape)[dim] * runtime::size_of(dense.dtype);
  const int64_t bytes = runtime::element_count(dense.shape) * runtime::size_of(dense.dtype);
  const char* data = static_cast<const char*>(dense.data);
  for (int64_t first = 0; first < bytes; first += step * dense.shape[dim])
    for (int64_t i = 1; i < dense.shape[dim]; ++i)
      if (std::memcmp(data + first, data + first + i * step, size_t(step)) != 0) return false;
  return dense.shape[dim] > 1;
}

bool may_repeat(const runtime::Manifest& manifest, const runtime::TensorInfo& info, bool shared) {
  return info.direction == runtime::Direction::in &&
         !(shared && std::any_of(manifest.tensors.begin(), manifest.tensors.end(),
                                 [&](const runtime::TensorInfo& other) { return other.may_alias == info.name; }));
}

/// Features stay together; the other dimensions come in any order, each with a gap or none.
runtime::Dims drawn_strides(const runtime::Manifest& manifest, const runtime::TensorInfo& info,
                            const runtime::TensorRef& dense, const CallersMemory& memory) {
  std::vector<uint32_t> words(info.name.begin(), info.name.end());
  words.insert(words.end(), {uint32_t(memory.strides), uint32_t(memory.strides >> 32)});
  std::seed_seq seed(words.begin(), words.end());
  std::mt19937_64 chance(seed);
  runtime::Dims strides = runtime::contiguous_strides(dense.shape);
  const bool features = has_feature(manifest, info);
  std::vector<size_t> inner_first(strides.size() - features);
  std::iota(inner_first.rbegin(), inner_first.rend(), 0);
  for (size_t i = inner_first.size(); i > 1; --i) std::swap(inner_first[i - 1], inner_first[chance() % i]);
  const int64_t unit = memory.strides % 2 == 0 ? std::max<int64_t>(16 / runtime::size_of(dense.dtype), 1) : 1;
  int64_t next = features ? dense.shape[strides.size() - 1] : 1;
  for (const size_t dim : inner_first) {
    next = runtime::ceil_divide(next, unit) * unit + unit * int64_t(chance() % 3);
    const bool repeated = may_repeat(manifest, info, memory.shared) && repeats(dense, dim);
    strides[dim] = repeated ? 0 : next;
    if (!repeated) next *= std::max<int64_t>(dense.shape[dim], 1);
  }
  return strides;
}

/// Calls visit(byte in the dense tensor, byte in the view, number of bytes) for pieces that lie together in both.
template <class Visit>
void for_each_piece(const runtime::TensorRef& dense, const runtime::Dims& strides, Visit visit) {
  const int64_t size = runtime::size_of(dense.dtype), count = runtime::element_count(dense.shape);
  if (strides == runtime::contiguous_strides(dense.shape)) return visit(0, 0, count * size);
  const size_t rank = strides.size(), outer = rank - (strides[rank - 1] == 1);
  const int64_t piece = outer < rank ? dense.shape[rank - 1] : 1;
  runtime::Dims position(std::vector<int64_t>(outer, 0));
  for (int64_t done = 0; done < count; done += piece) {
    int64_t at = 0;
    for (size_t i = 0; i < outer; ++i) at += position[i] * strides[i];
    visit(done * size, at * size, piece * size);
    for (size_t i = outer; i-- > 0;) {
      if (++position[i] < dense.shape[i]) break;
      position[i] = 0;
    }
  }
}

int64_t view_bytes(const runtime::TensorRef& dense, const runtime::Dims& strides) {
  int64_t last = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    if (dense.shape[i] == 0) return 0;
    last += (dense.shape[i] - 1) * strides[i];
  }
  return (last + 1) * runtime::size_of(dense.dtype);
}

}  // namespace

PlacedTensor::PlacedTensor(const runtime::Manifest& manifest, const runtime::TensorRef& dense,
                           const CallersMemory& memory)
    : dense_(dense), strides_(dense.strides) {
  const int64_t size = runtime::size_of(dense.dtype);
  start_ = runtime::ceil_divide(memory.base_offset, size) * size;
  const runtime::TensorInfo* info = manifest.find_tensor(dense.name);
  if (info && info->layout != runtime::Layout::param && memory.strides != 0)
    strides_ = drawn_strides(manifest, *info, dense, memory);
  size_ = start_ + view_bytes(dense, strides_) + rest_bytes;
  own_.assign(size_t(size_ + alignment), gap_byte);
  memory_ = own_.data() + -reinterpret_cast<std::uintptr_t>(own_.data()) % alignment;
  const char* from = static_cast<const char*>(dense.data);
  for_each_piece(dense_, strides_, [&](int64_t dense_at, int64_t at, int64_t n) {
    if (n > 0) std::memcpy(memory_ + start_ + at, from + dense_at, size_t(n));
  });
}

runtime::TensorRef PlacedTensor::view(char* memory) const {
  runtime::TensorRef tensor = dense_;
  tensor.data = memory + start_;
  tensor.strides = strides_;
  return tensor;
}

void PlacedTensor::read_back(void* dense) const {
  std::vector<char> rest(memory_, memory_ + size_);
  for_each_piece(dense_, strides_, [&](int64_t dense_at, int64_t at, int64_t n) {
    if (n <= 0) return;
    std::memcpy(static_cast<char*>(dense) + dense_at, memory_ + start_ + at, size_t(n));
    std::memset(rest.data() + start_ + at, gap_byte, size_t(n));
  });
  const auto written = std::find_if(rest.begin(), rest.end(), [](char byte) { return byte != gap_byte; });
  if (written != rest.end())
    throw CheckError(fmt::format("\"{}\" was written {} bytes from its start, where it has no element (strides {})",
                                 dense_.name, written - rest.begin() - start_, runtime::to_string(strides_)));
}

}  // namespace kdagen
