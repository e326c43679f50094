// SPDX-License-Identifier: Apache-2.0
// Between tensors as a layout puts them into memory (docs/architecture.md section 3) and the evaluator's dense arrays.
#pragma once
#include <vector>

#include "codegen/evaluator/evaluator.h"
#include "runtime/problem.h"
#include "runtime/safetensors.h"

namespace kdagen {

/// Where an element of a tensor in memory stands in the evaluator's dense array.
class DenseIndex {
 public:
  DenseIndex(const runtime::Manifest& manifest, const runtime::TensorInfo& tensor, const evaluator::Instance& instance);
  /// `position`: one index a dimension in memory. -1 for a tile's rows past its length, and for surplus tiles of
  /// tensors stored tile by tile: they may hold anything.
  int64_t operator()(const runtime::Dims& position) const;
  /// Elements of the dense array.
  int64_t size() const { return size_; }

 private:
  std::vector<runtime::DimRole> dims_;
  std::vector<evaluator::Tile> tiles_;
  int64_t tokens_, heads_, dim_, size_ = 1, subchunks_ = 1;
  bool has_head_ = false, has_feature_ = false, padded_rows_ = false;
};

/// Calls visit(element in memory, element of the dense array or -1) for every element of a tensor of this shape.
template <class Visit>
void for_each_element(const DenseIndex& index, const runtime::Dims& shape, Visit visit) {
  runtime::Dims position = shape;
  for (size_t i = 0; i < position.size(); ++i) position[i] = 0;
  const int64_t count = runtime::element_count(shape);
  for (int64_t element = 0; element < count; ++element) {
    visit(element, index(position));
    for (size_t i = shape.size(); i-- > 0;) {
      if (++position[i] < shape[i]) break;
      position[i] = 0;
    }
  }
}

/// The sizes of a call whose cu_seqlens, if any, lie in host memory and have been checked (runtime::check_offsets).
evaluator::Instance instance_of(const runtime::Problem& problem);

/// The tensor's values in the evaluator's order.
evaluator::Array to_dense(const DenseIndex& index, const runtime::HostTensor& tensor);
/// Fills `tensor`, rounding to its dtype; elements that the dense array lacks become 0.
void from_dense(const DenseIndex& index, const std::vector<double>& values, runtime::HostTensor& tensor);

}  // namespace kdagen
