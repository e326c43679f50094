// SPDX-License-Identifier: Apache-2.0
#include "runtime/binding.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "kdagen/error.h"

namespace kdagen::runtime {
namespace {

class TensorCheck {
 public:
  TensorCheck(const Manifest& manifest, const Problem& problem, const TensorInfo& info, const TensorRef& tensor)
      : manifest_(manifest), problem_(problem), info_(info), tensor_(tensor) {}

  BoundTensor run() const {
    if (tensor_.dtype != info_.dtype)
      fail(fmt::format("has the dtype {}; expected {}", name_of(tensor_.dtype), name_of(info_.dtype)));
    const Dims expected = tensor_shape(manifest_, info_, problem_);
    if (!(tensor_.shape == expected))
      fail(fmt::format("has the shape {}; expected {} = {}", to_string(tensor_.shape), shape_letters(manifest_, info_),
                       to_string(expected)));
    if (tensor_.strides.size() != tensor_.shape.size())
      fail(fmt::format("has {} strides for {} dimensions", tensor_.strides.size(), tensor_.shape.size()));
    BoundTensor bound;
    bound.info = &info_;
    bound.present = true;
    bound.data = tensor_.data;
    fill_strides(bound);
    check_memory(bound);
    return bound;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw UsageError(fmt::format("tensor \"{}\" of {} {}", info_.name, manifest_.kernel, problem));
  }

  void fill_strides(BoundTensor& bound) const {
    const std::vector<DimRole> roles = dimensions(manifest_, info_);
    const Dims contiguous = contiguous_strides(tensor_.shape);
    for (std::size_t i = 0; i < roles.size(); ++i) {
      const std::int64_t stride = tensor_.shape[i] > 1 ? tensor_.strides[i] : 0;
      if (stride < 0) fail(fmt::format("has the stride {} in dimension {}; it must not be negative", stride, i));
      if (tensor_.shape[i] > 1) check_stride(roles[i], i, stride, contiguous[i]);
      switch (roles[i]) {
        case DimRole::batch:
          bound.batch = stride;
          break;
        case DimRole::tokens:
          bound.token = stride;
          break;
        case DimRole::head:
          bound.head = stride;
          break;
        case DimRole::tile:
          bound.tile = stride;
          break;
        case DimRole::chunk_row:
        case DimRole::subchunk:
          bound.row = stride;
          break;
        case DimRole::feature:
          break;
      }
      bound.view.strides.push_back(bytes(stride));
    }
  }

  void check_stride(DimRole role, std::size_t dim, std::int64_t stride, std::int64_t contiguous) const {
    if (info_.layout == Layout::param && stride != contiguous)
      fail(fmt::format("has the stride {} in dimension {}; a parameter must be contiguous (stride {})", stride, dim,
                       contiguous));
    if (role == DimRole::feature && stride != 1)
      fail(fmt::format("has the stride {} in its innermost dimension; it must be 1", stride));
  }

  std::int64_t bytes(std::int64_t elements) const {
    try {
      return checked_multiply(elements, size_of(info_.dtype));
    } catch (const UsageError& error) {
      fail(error.what());
    }
  }

  void check_memory(BoundTensor& bound) const {
    bound.view.base = reinterpret_cast<std::uintptr_t>(tensor_.data);
    bound.view.element_bytes = size_of(info_.dtype);
    bound.view.shape = tensor_.shape;
    if (element_count(tensor_.shape) == 0) return;
    if (!tensor_.data) fail("has a null pointer");
    if (bound.view.base % size_of(info_.dtype) != 0)
      fail(fmt::format("is not aligned to its element size of {} bytes", size_of(info_.dtype)));
    try {
      end_of(bound.view);
    } catch (const UsageError& error) {
      fail(error.what());
    }
    if (info_.direction == Direction::out && overlaps_itself(bound.view))
      fail(fmt::format("is written, but strides {} of shape {} give two elements one address",
                       to_string(tensor_.strides), to_string(tensor_.shape)));
  }

  const Manifest& manifest_;
  const Problem& problem_;
  const TensorInfo& info_;
  const TensorRef& tensor_;
};

bool fits_vectors(const BoundTensor& bound) {
  if (!bound.present) return true;
  const auto multiple = [&](std::uint64_t bytes) {
    return bytes % static_cast<std::uint64_t>(bound.info->vector_bytes) == 0;
  };
  const std::int64_t size = bound.view.element_bytes;
  if ((bound.token * size) >> 32 || (bound.row * size) >> 32) return false;
  for (const std::int64_t stride : {bound.batch, bound.token, bound.head, bound.tile, bound.row})
    if (!multiple(static_cast<std::uint64_t>(stride * size))) return false;
  return multiple(bound.view.base);
}

bool has_map(const Manifest& manifest, const std::string& tensor) {
  return std::any_of(manifest.arguments.begin(), manifest.arguments.end(), [&](const ArgumentInfo& argument) {
    return argument.kind == ArgumentKind::tensor_map && argument.tensor == tensor;
  });
}

/// A tensor map knows dimensions that move on, by less than 2^40 bytes: a view that repeats its elements has none.
bool fits_map(const Manifest& manifest, const BoundTensor& bound) {
  if (!bound.present || !has_map(manifest, bound.info->name)) return true;
  for (std::size_t i = 0; i < bound.view.shape.size(); ++i) {
    const std::int64_t stride = bound.view.strides[i];
    if (bound.view.shape[i] > 1 && (stride == 0 || stride >> 40)) return false;
  }
  return true;
}

void check_known(const Manifest& manifest, const std::vector<TensorRef>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!manifest.find_tensor(tensors[i].name)) {
      std::string known;
      for (const TensorInfo& info : manifest.tensors) known += (known.empty() ? "" : ", ") + info.name;
      throw UsageError(fmt::format("{} has no tensor \"{}\"; it has {}", manifest.kernel, tensors[i].name, known));
    }
    for (std::size_t j = 0; j < i; ++j)
      if (tensors[j].name == tensors[i].name)
        throw UsageError(fmt::format("tensor \"{}\" of {} is given twice", tensors[i].name, manifest.kernel));
  }
}

StridedView offsets_view(const Problem& problem) {
  const std::int64_t size = problem.offsets == OffsetType::i64 ? 8 : 4;
  return {reinterpret_cast<std::uintptr_t>(problem.cu_seqlens), size, {problem.sequences + 1}, {size}};
}

/// The same memory, element by element, where the kernel leaves an input as it is.
bool is_allowed_alias(const BoundTensor& out, const BoundTensor& in) {
  return out.info->may_alias == in.info->name && out.view.base == in.view.base && out.view.strides == in.view.strides;
}

void check_aliasing(const Manifest& manifest, const Problem& problem, const Binding& binding) {
  for (const BoundTensor& out : binding.tensors) {
    if (!out.present || out.info->direction != Direction::out) continue;
    for (const BoundTensor& other : binding.tensors) {
      const bool both_out = other.present && other.info->direction == Direction::out;
      if (!other.present || &other == &out || (both_out && &other < &out)) continue;
      if (may_overlap(out.view, other.view) && !is_allowed_alias(out, other))
        throw UsageError(fmt::format("tensor \"{}\" of {} is written, but shares memory with \"{}\"", out.info->name,
                                     manifest.kernel, other.info->name));
    }
    if (problem.packed() && problem.cu_seqlens && may_overlap(out.view, offsets_view(problem)))
      throw UsageError(fmt::format("tensor \"{}\" of {} is written, but shares memory with cu_seqlens", out.info->name,
                                   manifest.kernel));
  }
}

/// The box of a sequence's last rows goes on behind them, and rows behind the last sequence are cleared in every
/// output: one block would clear what the box of another one reads.
bool clears_under_map(const Manifest& manifest, const Problem& problem, const Binding& binding) {
  return problem.packed() && std::any_of(binding.tensors.begin(), binding.tensors.end(), [&](const BoundTensor& out) {
           if (!out.present || out.info->may_alias.empty() || !has_map(manifest, out.info->may_alias)) return false;
           return std::any_of(binding.tensors.begin(), binding.tensors.end(), [&](const BoundTensor& in) {
             return in.present && in.info->name == out.info->may_alias && in.view.base == out.view.base;
           });
         });
}

bool holds(When when, const Problem& problem) {
  switch (when) {
    case When::always:
      return true;
    case When::packed:
      return problem.packed();
    case When::packed_i32:
      return problem.offsets == OffsetType::i32;
    case When::packed_i64:
      return problem.offsets == OffsetType::i64;
    case When::fixed:
      return !problem.packed();
  }
  return false;
}

std::uint64_t word(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }
std::uint64_t word(std::int64_t number) { return std::bit_cast<std::uint64_t>(number); }

}  // namespace

Binding bind_tensors(const Manifest& manifest, const Problem& problem, const std::vector<TensorRef>& tensors) {
  check_problem(manifest, problem);
  check_known(manifest, tensors);
  Binding binding;
  const TensorRef* first = nullptr;
  for (const TensorInfo& info : manifest.tensors) {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const TensorRef& t) { return t.name == info.name; });
    if (found == tensors.end()) {
      if (!info.optional)
        throw UsageError(fmt::format("tensor \"{}\" of {} is missing: {} {} {}", info.name, manifest.kernel,
                                     name_of(info.role), name_of(info.dtype), shape_letters(manifest, info)));
      BoundTensor absent;
      absent.info = &info;
      binding.tensors.push_back(absent);
      continue;
    }
    if (!first) first = &*found;
    if (found->device_ordinal != first->device_ordinal)
      throw UsageError(fmt::format("tensor \"{}\" of {} is on device {}, but \"{}\" is on device {} (-1 is the host)",
                                   info.name, manifest.kernel, found->device_ordinal, first->name,
                                   first->device_ordinal));
    binding.tensors.push_back(TensorCheck(manifest, problem, info, *found).run());
  }
  if (first) binding.device_ordinal = first->device_ordinal;
  binding.aligned = std::all_of(binding.tensors.begin(), binding.tensors.end(), [&](const BoundTensor& bound) {
    return fits_vectors(bound) && fits_map(manifest, bound);
  });
  check_aliasing(manifest, problem, binding);
  binding.aligned = binding.aligned && !clears_under_map(manifest, problem, binding);
  return binding;
}

void check_workspace(const Binding& binding, const WorkspaceLayout& layout, const void* workspace, std::int64_t bytes) {
  if (layout.bytes == 0) return;
  if (bytes < layout.bytes)
    throw UsageError(fmt::format("the workspace has {} bytes; {} are needed", bytes, layout.bytes));
  const auto base = reinterpret_cast<std::uintptr_t>(workspace);
  if (!workspace || base % workspace_alignment != 0)
    throw UsageError(fmt::format("the workspace must be aligned to {} bytes", workspace_alignment));
  const StridedView view{base, 1, {layout.bytes}, {1}};
  for (const BoundTensor& tensor : binding.tensors)
    if (tensor.present && may_overlap(view, tensor.view))
      throw UsageError(fmt::format("the workspace shares memory with the tensor \"{}\"", tensor.info->name));
}

std::vector<std::uint64_t> build_words(const Manifest& manifest, const Problem& problem, const Binding& binding,
                                       const WorkspaceLayout& layout, void* workspace, const TensorMapMaker& make_map) {
  std::vector<std::uint64_t> words;
  const auto bound = [&](const ArgumentInfo& argument) -> const BoundTensor& {
    return binding.tensors[manifest.find_tensor(argument.tensor) - manifest.tensors.data()];
  };
  for (const ArgumentInfo& argument : manifest.arguments) {
    switch (argument.kind) {
      case ArgumentKind::rows: {
        const BoundTensor& t = bound(argument);
        words.insert(words.end(), {word(t.data), word(t.batch), word(t.token), word(t.head)});
        break;
      }
      case ArgumentKind::tile: {
        const BoundTensor& t = bound(argument);
        words.insert(words.end(), {word(t.data), word(t.head), word(t.tile), word(t.row)});
        break;
      }
      case ArgumentKind::pointer:
        words.push_back(word(bound(argument).data));
        break;
      case ArgumentKind::workspace: {
        const std::ptrdiff_t slot = manifest.find_workspace(argument.name) - manifest.workspace.data();
        words.push_back(reinterpret_cast<std::uintptr_t>(workspace) +
                        static_cast<std::uint64_t>(layout.slots[slot].offset));
        break;
      }
      case ArgumentKind::cu_seqlens:
        words.push_back(word(problem.cu_seqlens));
        break;
      case ArgumentKind::size:
        words.push_back(word(evaluate_symbol(argument.size, manifest, problem)));
        break;
      case ArgumentKind::tensor_map: {
        const TensorMapWords map = binding.aligned ? make_map(bound(argument), argument.rows) : TensorMapWords{};
        words.insert(words.end(), map.begin(), map.end());
        break;
      }
    }
  }
  words.resize(static_cast<std::size_t>(argument_words(manifest)));
  return words;
}

std::vector<LaunchStep> launch_steps(const Manifest& manifest, const Problem& problem, const Binding& binding) {
  constexpr std::int64_t limits[] = {0x7fffffff, 65535, 65535};
  std::vector<LaunchStep> steps;
  for (const LaunchInfo& info : manifest.launches) {
    if (!holds(info.when, problem)) continue;
    LaunchStep step{&info, binding.aligned || info.entry_any.empty() ? info.entry : info.entry_any, {1, 1, 1}};
    bool empty = false;
    for (std::size_t i = 0; i < info.grid.size(); ++i) {
      const std::int64_t blocks = evaluate_product(info.grid[i], manifest, problem, info.tiles_per_block);
      if (blocks > limits[i])
        throw UsageError(
            fmt::format("{} needs {} blocks in grid dimension {}; the limit is {}", info.entry, blocks, i, limits[i]));
      step.grid[i] = static_cast<std::uint32_t>(blocks);
      empty = empty || blocks == 0;
    }
    if (!empty) steps.push_back(step);
  }
  return steps;
}

}  // namespace kdagen::runtime
