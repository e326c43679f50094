// SPDX-License-Identifier: Apache-2.0
// A prepared call with some of its tensors laid out otherwise in memory.
#pragma once
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/common/emulated_program.h"

namespace kdagen::testing {

/// A copy of a tensor with its own strides and start (in elements), NaN between its elements.
class StridedCopy {
 public:
  StridedCopy(const std::string& name, const runtime::HostTensor& from, const runtime::Dims& strides, int64_t start = 0)
      : size_(runtime::size_of(from.dtype)) {
    int64_t last = start;
    for (size_t i = 0; i < strides.size(); ++i) last += std::max<int64_t>(from.shape[i] - 1, 0) * strides[i];
    memory_.assign((last + 1) * size_ + 256, std::byte{0xff});
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    std::byte* const base = memory_.data() + (256 - address % 256) % 256;
    ref = {name, base + start * size_, from.dtype, from.shape, strides, -1};
    for_each(from.shape, strides,
             [&](int64_t dense, int64_t at) { std::memcpy(place(at), from.data.data() + dense * size_, size_); });
    before_ = memory_;
  }
  runtime::HostTensor dense() const {
    runtime::HostTensor tensor(ref.dtype, ref.shape);
    for_each(ref.shape, ref.strides,
             [&](int64_t dense, int64_t at) { std::memcpy(tensor.data.data() + dense * size_, place(at), size_); });
    return tensor;
  }
  /// No byte outside the elements changed.
  bool gaps_untouched() const {
    std::vector<std::byte> now = memory_;
    const auto offset = [&](int64_t at) { return place(at) - memory_.data(); };
    for_each(ref.shape, ref.strides,
             [&](int64_t, int64_t at) { std::memcpy(now.data() + offset(at), before_.data() + offset(at), size_); });
    return now == before_;
  }

  runtime::TensorRef ref;

 private:
  std::byte* place(int64_t at) const { return static_cast<std::byte*>(ref.data) + at * size_; }
  template <class Visit>
  static void for_each(const runtime::Dims& shape, const runtime::Dims& strides, Visit visit) {
    for (int64_t i = 0; i < runtime::element_count(shape); ++i) {
      int64_t rest = i, at = 0;
      for (size_t k = shape.size(); k-- > 0; rest /= shape[k]) at += rest % shape[k] * strides[k];
      visit(i, at);
    }
  }
  int64_t size_;
  std::vector<std::byte> memory_, before_;
};

/// Runs the pass of a call with the given tensors in place of its own; the others stay contiguous. Outputs come back in
/// the copies and in the call.
inline void launch_with(Call& call, Pass pass, const std::vector<StridedCopy*>& copies) {
  std::map<std::string, runtime::TensorRef> refs;
  for (const runtime::TensorInfo& info : call.kernel(pass).manifest().tensors)
    if (call.has(info.name)) refs[info.name] = runtime::ref(info.name, call.tensor(info.name));
  for (StridedCopy* copy : copies) refs.at(copy->ref.name) = copy->ref;
  std::vector<runtime::TensorRef> list;
  for (auto& [name, ref] : refs) list.push_back(ref);
  call.kernel(pass).launch(list, call.problem());
  for (StridedCopy* copy : copies) call.tensor(copy->ref.name) = copy->dense();
}

}  // namespace kdagen::testing
