// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch_plan.h"

#include <algorithm>

namespace kdagen::runtime {
namespace {

bool same(const TensorRef& a, const TensorRef& b) {
  return a.data == b.data && a.dtype == b.dtype && a.device_ordinal == b.device_ordinal && a.shape == b.shape &&
         a.strides == b.strides && a.name == b.name;
}

bool same(const Problem& a, const Problem& b) {
  return a.batch == b.batch && a.tokens == b.tokens && a.heads == b.heads && a.sequences == b.sequences &&
         a.cu_seqlens == b.cu_seqlens && a.offsets == b.offsets;
}

}  // namespace

LaunchPlan::LaunchPlan(const Manifest& manifest, const Problem& problem, std::vector<TensorRef> tensors,
                       Binding binding, const TensorMapMaker& make_map)
    : problem(problem),
      tensors(std::move(tensors)),
      binding(std::move(binding)),
      layout(is_empty(problem) ? WorkspaceLayout{} : workspace_layout(manifest, problem)),
      steps(is_empty(problem) ? std::vector<LaunchStep>{} : launch_steps(manifest, problem, this->binding)) {
  if (is_empty(problem)) return;
  words_ = build_words(manifest, problem, this->binding, layout, nullptr, make_map);
  std::size_t at = 0;
  for (const ArgumentInfo& argument : manifest.arguments) {
    if (argument.kind == ArgumentKind::workspace) workspace_words_.push_back(at);
    at += static_cast<std::size_t>(argument_words(argument.kind));
  }
}

std::vector<std::uint64_t> LaunchPlan::words_for(void* workspace) const {
  std::vector<std::uint64_t> words = words_;
  for (const std::size_t at : workspace_words_) words[at] += reinterpret_cast<std::uintptr_t>(workspace);
  return words;
}

void LaunchPlan::check_workspace(const void* workspace, std::int64_t bytes) const {
  if (bytes >= layout.bytes && workspace == good_workspace_.load(std::memory_order_relaxed)) return;
  runtime::check_workspace(binding, layout, workspace, bytes);
  good_workspace_.store(workspace, std::memory_order_relaxed);
}

std::shared_ptr<const LaunchPlan> LaunchPlans::find(const std::vector<TensorRef>& tensors, const Problem& problem) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(plans_.rbegin(), plans_.rend(), [&](const auto& plan) {
    return same(plan->problem, problem) &&
           std::equal(tensors.begin(), tensors.end(), plan->tensors.begin(), plan->tensors.end(),
                      [](const TensorRef& a, const TensorRef& b) { return same(a, b); });
  });
  if (found == plans_.rend()) return nullptr;
  std::rotate(found.base() - 1, found.base(), plans_.end());
  return plans_.back();
}

void LaunchPlans::add(std::shared_ptr<const LaunchPlan> plan) {
  const std::lock_guard lock(mutex_);
  if (plans_.size() == capacity) plans_.erase(plans_.begin());
  plans_.push_back(std::move(plan));
}

}  // namespace kdagen::runtime
