// SPDX-License-Identifier: Apache-2.0
#include "tools/fuzz/schedules.h"

#include <cmath>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "codegen/backend.h"

namespace kdagen::fuzz {
namespace {

/// The first of the indices in dimension `dim` for all of them.
void repeat_along(size_t dim, HostTensor& tensor) {
  int64_t inner = 1;
  for (size_t i = dim + 1; i < tensor.shape.size(); ++i) inner *= tensor.shape[i];
  const int64_t extent = tensor.shape[dim];
  for (int64_t i = 0; i < int64_t(tensor.values.size()); ++i)
    tensor.values[i] = tensor.values[i / (inner * extent) * (inner * extent) + i % inner];
}

/// Tensors of rows are [B,T,H,D] or [B,T,H]; parameters have fewer dimensions. What stands first in a dimension is
/// always read.
Tensors with_repeats(Tensors tensors) {
  constexpr unsigned along[] = {4, 2, 7, 0, 6, 1};  // bits of dimensions
  size_t number = 0;
  for (auto& [name, tensor] : tensors) {
    if (tensor.shape.size() < 3) continue;
    const unsigned dims = along[number++ % std::size(along)];
    for (size_t dim = 0; dim < 3; ++dim)
      if (dims >> dim & 1) repeat_along(dim, tensor);
  }
  return tensors;
}

std::string first_difference(const Tensors& expected, const Tensors& actual) {
  for (const auto& [name, tensor] : expected) {
    const std::vector<double>& others = actual.at(name).values;
    for (size_t i = 0; i < tensor.values.size(); ++i)
      if (!(tensor.values[i] == others.at(i)) && !(std::isnan(tensor.values[i]) && std::isnan(others[i])))
        return fmt::format("{}: element {} is {:.9g}, not {:.9g}", name, i, others[i], tensor.values[i]);
  }
  return "";
}

}  // namespace

std::string fitting_schedule(Compilation& compilation, const std::string& arch,
                             const std::vector<std::string>& wishes) {
  std::string schedule;
  for (const std::string& wish : wishes) {
    const std::string longer = schedule.empty() ? wish : schedule + "," + wish;
    try {
      schedule_figures(compilation, arch, longer);
      schedule = longer;
    } catch (const UsageError&) {
      continue;  // does not fit the spec's size
    }
  }
  return schedule.empty() ? "default" : schedule;
}

std::set<std::string> keys_of(const std::string& schedule) {
  std::set<std::string> keys;
  std::istringstream text(schedule);
  for (std::string key; std::getline(text, key, ',');) keys.insert(key);
  return keys;
}

Tensors Schedules::run(const Tensors& inputs, const Shape& shape) {
  Tensors result = agreed(inputs, shape, "");
  if (std::exchange(repeats_, false)) agreed(with_repeats(inputs), shape, " of inputs that repeat");
  return result;
}

Tensors Schedules::agreed(const Tensors& inputs, const Shape& shape, const char* of) {
  Tensors first = subjects_.front().second->run(inputs, shape);
  for (size_t i = 1; i < subjects_.size(); ++i)
    if (const std::string difference = first_difference(first, subjects_[i].second->run(inputs, shape));
        !difference.empty())
      throw CheckError(fmt::format("schedule {} gives other bits{} than {} (whose tensors may have other strides): {}",
                                   subjects_[i].first, of, subjects_.front().first, difference));
  return first;
}

}  // namespace kdagen::fuzz
