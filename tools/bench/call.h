// SPDX-License-Identifier: Apache-2.0
// A kernel's call with all its memory on a device.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/kernel.h"
#include "runtime/safetensors.h"

namespace kdagen {

/// Fixed length, or packed when `seqlens` has entries (batch is then 1 and tokens their sum).
struct BenchSizes {
  int64_t batch = 1, tokens = 8192, heads = 96;
  std::vector<int64_t> seqlens;
};

/// How a call's tensors lie in memory, where that decides which entry of a text runs.
struct CallForm {
  /// An output that repeats an input unchanged is in the input's memory, as a caller without other use for it would
  /// have it: neither is moved.
  bool share = true;
  bool aligned = true;                                     ///< else every tensor begins an element late
  runtime::OffsetType offsets = runtime::OffsetType::i32;  ///< of packed sequences
};

/// Without offsets in memory. UsageError for sizes that do not pass.
runtime::Problem problem_of(const BenchSizes& sizes);

/// What tensors are filled with: N(0,1), parameters N(0,1)/2; row exponents are 0. A tensor of the same name and size
/// is always filled alike, a large one by repeating a piece.
class Patterns {
 public:
  /// From byte `start` on.
  void fill(runtime::DeviceBuffer& buffer, const runtime::TensorInfo& info, int64_t elements, int64_t start = 0);

 private:
  std::map<std::pair<std::string, int64_t>, runtime::HostTensor> known_;
};

class DeviceCall {
 public:
  struct Output {
    std::string name;
    runtime::DeviceBuffer* memory;
    int64_t bytes;
  };

  DeviceCall(const runtime::Manifest& manifest, const BenchSizes& sizes, int ordinal, Patterns& patterns,
             const CallForm& form = {});

  /// Of the tensors that a kernel reads and writes, each counted once.
  int64_t bytes() const { return bytes_; }
  const runtime::Problem& problem() const { return problem_; }
  const std::vector<runtime::TensorRef>& tensors() const { return tensors_; }
  void* workspace() const { return workspace_.data(); }  ///< of the latest launch
  /// Those with memory of their own.
  std::vector<Output> outputs();
  /// Any kernel with these tensors.
  void launch(runtime::CudaKernel& kernel, runtime::CudaStream stream);

 private:
  template <class Offset>
  void set_offsets(const std::vector<int64_t>& lengths);
  void add(const runtime::Manifest& manifest, const runtime::TensorInfo& info, Patterns& patterns,
           const CallForm& form);

  runtime::Problem problem_;
  std::vector<runtime::DeviceBuffer> memory_;  // of the tensors that have their own, in order
  std::vector<std::pair<std::string, size_t>> outputs_;
  runtime::DeviceBuffer offsets_, workspace_;
  std::vector<runtime::TensorRef> tensors_;
  int ordinal_;
  int64_t bytes_ = 0;
};

}  // namespace kdagen
