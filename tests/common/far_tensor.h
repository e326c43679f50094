// SPDX-License-Identifier: Apache-2.0
// A tensor in blocks that lie far apart: all that has one index in its far dimension is a block.
#pragma once
#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "runtime/problem.h"
#include "runtime/safetensors.h"

namespace kdagen::testing {

class FarTensor {
 public:
  /// `far`: the roles of which the tensor's (it has at most one) is the far dimension. `distance` in elements.
  FarTensor(runtime::HostTensor tensor, const std::vector<runtime::DimRole>& roles,
            const std::vector<runtime::DimRole>& far, int64_t distance)
      : tensor_(std::move(tensor)), strides_(runtime::contiguous_strides(tensor_.shape)), at_(roles.size()) {
    for (size_t i = 0; i < roles.size(); ++i)
      if (std::find(far.begin(), far.end(), roles[i]) != far.end() && tensor_.shape[i] > 1) at_ = i;
    if (at_ == roles.size()) return;
    blocks_ = tensor_.shape[at_];
    pitch_bytes_ = distance * runtime::size_of(tensor_.dtype);
    int64_t stride = 1;
    for (size_t i = roles.size(); i-- > 0;)
      if (i != at_) strides_[i] = stride, stride *= tensor_.shape[i];
    strides_[at_] = distance;
  }

  const runtime::HostTensor& dense() const { return tensor_; }
  const runtime::Dims& strides() const { return strides_; }
  bool is_far() const { return blocks_ > 1; }
  int64_t blocks() const { return blocks_; }
  int64_t block_bytes() const { return static_cast<int64_t>(tensor_.data.size()) / blocks_; }
  /// From the tensor's first byte.
  int64_t place(int64_t block) const { return block * pitch_bytes_; }

  std::vector<std::byte> block(int64_t number) {
    std::vector<std::byte> bytes(block_bytes());
    visit(number, [&](std::byte* dense, int64_t at) { std::memcpy(bytes.data() + at, dense, size()); });
    return bytes;
  }
  void set_block(int64_t number, const std::byte* bytes) {
    visit(number, [&](std::byte* dense, int64_t at) { std::memcpy(dense, bytes + at, size()); });
  }

 private:
  size_t size() const { return static_cast<size_t>(runtime::size_of(tensor_.dtype)); }
  void visit(int64_t number, const std::function<void(std::byte*, int64_t)>& action) {
    for (int64_t i = 0; i < tensor_.elements(); ++i) {
      int64_t rest = i, at = 0, block = 0;
      for (size_t k = tensor_.shape.size(); k-- > 0; rest /= tensor_.shape[k]) {
        const int64_t index = rest % tensor_.shape[k];
        if (k == at_)
          block = index;
        else
          at += index * strides_[k];
      }
      if (block == number) action(tensor_.data.data() + i * size(), at * static_cast<int64_t>(size()));
    }
  }

  runtime::HostTensor tensor_;
  runtime::Dims strides_;
  size_t at_;
  int64_t blocks_ = 1, pitch_bytes_ = 0;
};

}  // namespace kdagen::testing
