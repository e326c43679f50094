// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulated/guarded_tensors.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "runtime/runs.h"

namespace kdagen::runtime {
namespace {

template <class Action>
void for_each_row(const StridedView& view, Action action) {
  for_each_block(view, [&](const MemoryBlock& block) {
    for (std::int64_t row = 0; row < block.rows; ++row)
      action(block.offset + row * block.pitch, static_cast<std::size_t>(block.width));
  });
}

/// The stride of a dimension with one element, in elements: an index other than 0 leads far outside.
constexpr std::int64_t wild_stride = std::int64_t{1} << 40;

bool all_poison(const char* data, std::size_t bytes) {
  return std::all_of(data, data + bytes, [](char byte) { return static_cast<unsigned char>(byte) == poison_byte; });
}

const char* bytes_of(std::uintptr_t address) { return reinterpret_cast<const char*>(address); }

}  // namespace

GuardedTensors::Memory& GuardedTensors::allocate(std::string name, std::uintptr_t like, std::size_t bytes,
                                                 bool writable) {
  constexpr std::size_t alignment = 256;
  Memory memory{emulator::allocate_guarded(bytes + alignment), nullptr, bytes, std::move(name), writable};
  memory.data = static_cast<char*>(memory.owner.get()) + like % alignment;
  std::memset(memory.data, poison_byte, bytes);
  return memories_.emplace_back(std::move(memory));
}

GuardedTensors::GuardedTensors(const Manifest& manifest, const Problem& problem, const Binding& binding,
                               const WorkspaceLayout& layout)
    : problem_(problem), binding_(binding), layout_(layout) {
  for (BoundTensor& tensor : binding_.tensors) {
    if (!tensor.present) continue;
    const bool written = tensor.info->direction == Direction::out;
    const std::uintptr_t from = tensor.view.base;
    if (share_with_alias(tensor, binding)) continue;
    const Memory& memory = allocate(tensor.info->name, from, end_of(tensor.view) - from, written);
    if (!written)
      for_each_row(tensor.view,
                   [&](std::int64_t at, std::size_t n) { std::memcpy(memory.data + at, bytes_of(from) + at, n); });
    tensor.data = memory.data;
    if (problem.batch == 1 && is_row_tensor(manifest, *tensor.info)) tensor.batch = wild_stride;
    tensor.view.base = reinterpret_cast<std::uintptr_t>(memory.data);
  }
  if (problem.packed() && problem.cu_seqlens) {
    const std::size_t bytes =
        static_cast<std::size_t>(problem.sequences + 1) * (problem.offsets == OffsetType::i64 ? 8 : 4);
    const Memory& memory = allocate("cu_seqlens", reinterpret_cast<std::uintptr_t>(problem.cu_seqlens), bytes, false);
    std::memcpy(memory.data, problem.cu_seqlens, bytes);
    problem_.cu_seqlens = memory.data;
  }
  for (WorkspaceSlot& slot : layout_.slots) {
    const Memory& memory = allocate("workspace " + slot.name, 0, static_cast<std::size_t>(slot.bytes), true);
    if (!workspace_) workspace_ = memory.data;
    slot.offset = memory.data - workspace_;
  }
}

// An output that a caller passes in an input's memory stays there. Inputs come first in a manifest.
bool GuardedTensors::share_with_alias(BoundTensor& tensor, const Binding& callers) {
  if (tensor.info->may_alias.empty()) return false;
  for (std::size_t i = 0; i < callers.tensors.size(); ++i) {
    const BoundTensor& input = callers.tensors[i];
    if (!input.present || input.info->name != tensor.info->may_alias || input.view.base != tensor.view.base) continue;
    const auto owner = std::find_if(memories_.begin(), memories_.end(),
                                    [&](const Memory& memory) { return memory.data == binding_.tensors[i].data; });
    owner->writable = true;
    tensor.data = owner->data;
    tensor.view.base = reinterpret_cast<std::uintptr_t>(owner->data);
    return true;
  }
  return false;
}

std::vector<emulator::Buffer> GuardedTensors::buffers() const {
  std::vector<emulator::Buffer> buffers;
  for (const Memory& memory : memories_)
    if (memory.bytes > 0)
      buffers.push_back({memory.data, memory.bytes, memory.name,
                         !memory.writable || !all_poison(memory.data, memory.bytes), memory.writable});
  return buffers;
}

std::vector<std::string> GuardedTensors::written_gaps() const {
  std::vector<std::string> reports;
  for (const BoundTensor& tensor : binding_.tensors) {
    if (!tensor.present || tensor.info->direction != Direction::out) continue;
    const char* data = bytes_of(tensor.view.base);
    std::vector<char> rest(data, bytes_of(end_of(tensor.view)));
    for_each_row(tensor.view, [&](std::int64_t at, std::size_t n) { std::memset(rest.data() + at, poison_byte, n); });
    const auto found = std::find_if(rest.begin(), rest.end(),
                                    [](char byte) { return static_cast<unsigned char>(byte) != poison_byte; });
    if (found != rest.end())
      reports.push_back(
          fmt::format("\"{}\" was written {} bytes from its start, between its elements (strides in bytes {})",
                      tensor.info->name, found - rest.begin(), to_string(tensor.view.strides)));
  }
  return reports;
}

void GuardedTensors::copy_back(const Binding& callers) const {
  for (std::size_t i = 0; i < binding_.tensors.size(); ++i) {
    const BoundTensor& from = binding_.tensors[i];
    if (!from.present || from.info->direction != Direction::out) continue;
    char* to = static_cast<char*>(callers.tensors[i].data);
    for_each_row(from.view,
                 [&](std::int64_t at, std::size_t n) { std::memcpy(to + at, bytes_of(from.view.base) + at, n); });
  }
}

}  // namespace kdagen::runtime
