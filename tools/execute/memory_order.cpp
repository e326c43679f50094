// SPDX-License-Identifier: Apache-2.0
#include "tools/execute/memory_order.h"

#include <algorithm>
#include <array>

namespace kdagen {

using runtime::DimRole;

DenseIndex::DenseIndex(const runtime::Manifest& manifest, const runtime::TensorInfo& tensor,
                       const evaluator::Instance& instance)
    : dims_(runtime::dimensions(manifest, tensor)),
      tokens_(instance.tokens),
      heads_(instance.heads),
      dim_(manifest.dim) {
  const auto has = [&](DimRole role) { return std::find(dims_.begin(), dims_.end(), role) != dims_.end(); };
  has_head_ = has(DimRole::head);
  has_feature_ = has(DimRole::feature);
  padded_rows_ = has(DimRole::chunk_row);
  if (padded_rows_) tiles_ = instance.tiles(manifest.chunk);
  if (padded_rows_ || has(DimRole::tokens))
    size_ = instance.rows();
  else if (has(DimRole::tile))
    size_ = instance.capacity(manifest.chunk);
  if (tensor.subchunk_rows > 0) subchunks_ = runtime::ceil_divide(manifest.chunk, tensor.subchunk_rows);
  size_ *= subchunks_;
  if (has_head_) size_ *= heads_;
  if (has_feature_) size_ *= dim_;
}

int64_t DenseIndex::operator()(const runtime::Dims& position) const {
  std::array<int64_t, runtime::dim_roles> index{};  // 0 of what the tensor has not
  for (size_t i = 0; i < dims_.size(); ++i) index[size_t(dims_[i])] = position[i];
  const auto of = [&](DimRole role) { return index[size_t(role)]; };
  const int64_t tile = of(DimRole::tile), row = of(DimRole::chunk_row);
  int64_t outer = of(DimRole::batch) * tokens_ + of(DimRole::tokens) + tile;  // a tensor has tokens or tiles
  if (padded_rows_) {
    if (tile >= static_cast<int64_t>(tiles_.size()) || row >= tiles_[tile].rows) return -1;
    outer = tiles_[tile].first_row + row;
  }
  outer = outer * subchunks_ + of(DimRole::subchunk);
  if (has_head_) outer = outer * heads_ + of(DimRole::head);
  return has_feature_ ? outer * dim_ + of(DimRole::feature) : outer;
}

evaluator::Instance instance_of(const runtime::Problem& problem) {
  if (!problem.packed()) return evaluator::Instance::fixed(problem.batch, problem.tokens, problem.heads);
  const auto offset = [&](int64_t i) -> int64_t {
    if (problem.offsets == runtime::OffsetType::i64) return static_cast<const int64_t*>(problem.cu_seqlens)[i];
    return static_cast<const int32_t*>(problem.cu_seqlens)[i];
  };
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < problem.sequences; ++i) lengths.push_back(offset(i + 1) - offset(i));
  return evaluator::Instance::packed_row(std::move(lengths), problem.heads, problem.tokens - offset(problem.sequences));
}

evaluator::Array to_dense(const DenseIndex& index, const runtime::HostTensor& tensor) {
  evaluator::Array array{std::vector<double>(index.size()), {index.size()}};
  for_each_element(index, tensor.shape, [&](int64_t element, int64_t dense) {
    if (dense >= 0) array.values[dense] = tensor.get(element);
  });
  return array;
}

void from_dense(const DenseIndex& index, const std::vector<double>& values, runtime::HostTensor& tensor) {
  for_each_element(index, tensor.shape,
                   [&](int64_t element, int64_t dense) { tensor.set(element, dense >= 0 ? values.at(dense) : 0); });
}

}  // namespace kdagen
