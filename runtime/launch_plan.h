// SPDX-License-Identifier: Apache-2.0
// Launches that passed every check, kept: a training step repeats its calls with the same tensors, and to compare them
// with those of an earlier call is many times quicker than to check them, to encode tensor maps and to lay out the
// arguments.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/binding.h"

namespace kdagen::runtime {

struct LaunchPlan {
  LaunchPlan(const Manifest& manifest, const Problem& problem, std::vector<TensorRef> tensors, Binding binding,
             const TensorMapMaker& make_map);

  /// The argument struct for a launch with this workspace.
  std::vector<std::uint64_t> words_for(void* workspace) const;
  /// Refuses a workspace as check_workspace does; free for the one of the latest call.
  void check_workspace(const void* workspace, std::int64_t bytes) const;

  const Problem problem;
  const std::vector<TensorRef> tensors;
  const Binding binding;
  const WorkspaceLayout layout;
  const std::vector<LaunchStep> steps;

 private:
  std::vector<std::uint64_t> words_;          // with offsets in place of the workspace's addresses
  std::vector<std::size_t> workspace_words_;  // where those stand
  mutable std::atomic<const void*> good_workspace_ = nullptr;
};

/// The latest plans of a kernel. Thread-safe.
class LaunchPlans {
 public:
  static constexpr std::size_t capacity = 64;  ///< more than the layers that share a kernel
  /// The plan of an earlier call with equal tensors and problem, or null.
  std::shared_ptr<const LaunchPlan> find(const std::vector<TensorRef>& tensors, const Problem& problem);
  void add(std::shared_ptr<const LaunchPlan> plan);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const LaunchPlan>> plans_;  // the latest used last
};

}  // namespace kdagen::runtime
