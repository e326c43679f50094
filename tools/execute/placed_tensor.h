// SPDX-License-Identifier: Apache-2.0
// A dense tensor in memory of the kind that a caller may have: it starts anywhere, has gaps and an order of its own.
#pragma once
#include <vector>

#include "runtime/manifest.h"
#include "tools/execute/launch.h"

namespace kdagen {

class PlacedTensor {
 public:
  /// Copies `dense`; bytes that belong to no element are a NaN in any float type.
  PlacedTensor(const runtime::Manifest& manifest, const runtime::TensorRef& dense, const CallersMemory& memory);

  PlacedTensor(PlacedTensor&&) = default;

  const runtime::TensorRef& dense() const { return dense_; }
  /// All of the memory: what lies in front of the tensor, the tensor, what lies behind it. Aligned for any entry.
  char* memory() const { return memory_; }
  int64_t size() const { return size_; }
  /// The tensor as a view of memory() or of a copy of it.
  runtime::TensorRef view(char* memory) const;
  /// Copies the elements to a dense tensor of the same shape, which may be another than the constructor's. CheckError
  /// when a byte that belongs to no element changed.
  void read_back(void* dense) const;

 private:
  runtime::TensorRef dense_;
  runtime::Dims strides_;
  int64_t start_ = 0, size_ = 0;
  std::vector<char> own_;
  char* memory_ = nullptr;  // in own_
};

}  // namespace kdagen
