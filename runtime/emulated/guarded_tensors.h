// SPDX-License-Identifier: Apache-2.0
// Private copies of a call's memory for the emulator: each tensor in an allocation of its own, however the caller's
// views interleave, with poison wherever the kernel must not look.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/binding.h"
#include "runtime/emulator/emulator.h"

namespace kdagen::runtime {

/// Every byte of an unwritten output, of workspace and of the gaps between a view's elements: a NaN in any float type.
inline constexpr int poison_byte = 0xff;

class GuardedTensors {
 public:
  /// Copies inputs and cu_seqlens; addresses keep their remainder by 256, so alignment is as the caller's.
  GuardedTensors(const Manifest& manifest, const Problem& problem, const Binding& binding,
                 const WorkspaceLayout& layout);

  /// The same call on the copies.
  const Problem& problem() const { return problem_; }
  const Binding& binding() const { return binding_; }
  const WorkspaceLayout& layout() const { return layout_; }
  void* workspace() const { return workspace_; }

  /// What a launch may touch. Outputs and workspaces count as initialised once any byte of them changed.
  std::vector<emulator::Buffer> buffers() const;
  /// Outputs whose gaps were written, as reports.
  std::vector<std::string> written_gaps() const;
  /// Copies the outputs' elements to the caller's memory.
  void copy_back(const Binding& callers) const;

 private:
  struct Memory {
    std::shared_ptr<void> owner;
    char* data = nullptr;
    std::size_t bytes = 0;
    std::string name;
    bool writable = false;
  };
  bool share_with_alias(BoundTensor& tensor, const Binding& callers);
  Memory& allocate(std::string name, std::uintptr_t like, std::size_t bytes, bool writable);

  Problem problem_;
  Binding binding_;
  WorkspaceLayout layout_;
  char* workspace_ = nullptr;
  std::vector<Memory> memories_;
};

}  // namespace kdagen::runtime
