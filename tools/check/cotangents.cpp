// SPDX-License-Identifier: Apache-2.0
#include "tools/check/cotangents.h"

#include <algorithm>
#include <cmath>

#include <kdagen/error.h>

#include "tools/check/problem.h"

namespace kdagen {
namespace {

/// Splits into row exponents and scaled values; rows are runs of `width` elements.
HostTensor take_row_exponents(HostTensor& tensor, int64_t width, const std::vector<int64_t>& shape) {
  HostTensor exponents = make_tensor(tensor.name + "_exp", "i8", shape);
  for (size_t row = 0; row < exponents.values.size(); ++row) {
    double largest = 0;
    double* values = &tensor.values[row * width];
    for (int64_t i = 0; i < width; ++i) largest = std::max(largest, std::fabs(values[i]));
    if (largest == 0) continue;
    const int exponent = std::clamp(std::ilogb(largest) - 14, -128, 127);
    exponents.values[row] = exponent;
    for (int64_t i = 0; i < width; ++i) values[i] = std::ldexp(values[i], -exponent);
  }
  return exponents;
}

}  // namespace

Tensors store_cotangents(const Tensors& upstream, kda::KernelOp backward, const Problem& problem) {
  std::map<std::string, evaluator::TensorInfo> read;
  for (const evaluator::TensorInfo& info : evaluator::tensors_of(backward, instance_of(problem.shape)))
    if (!info.is_output) read[info.name] = info;
  Tensors result;
  for (const Declaration& output : problem.outputs) {
    const std::string name = "d" + output.name;
    auto info = read.find(name);
    if (info == read.end()) continue;
    auto given = upstream.find(name);
    if (given == upstream.end())
      throw KdagenBug("the workload of " + problem.spec + " gives no cotangent for output " + output.name);
    HostTensor tensor = given->second;
    tensor.name = name;
    if (auto exponent = read.find(name + "_exp"); exponent != read.end()) {
      const int64_t rows = element_count(exponent->second.shape);
      const int64_t width = rows ? static_cast<int64_t>(tensor.values.size()) / rows : 1;
      result[name + "_exp"] = take_row_exponents(tensor, width, exponent->second.shape);
    }
    tensor = stored_as(tensor, info->second.dtype);
    poison_unread(output, problem.shape, tensor);
    result[name] = std::move(tensor);
  }
  return result;
}

Tensors read_cotangents(const Tensors& stored, const Problem& problem) {
  Tensors result;
  for (const Declaration& output : problem.outputs) {
    auto found = stored.find("d" + output.name);
    if (found == stored.end()) continue;
    HostTensor tensor = found->second;
    tensor.dtype = "f64";
    if (auto exponents = stored.find(tensor.name + "_exp"); exponents != stored.end()) {
      const std::vector<double>& exponent = exponents->second.values;
      const size_t width = tensor.values.size() / std::max<size_t>(exponent.size(), 1);
      for (size_t i = 0; i < tensor.values.size(); ++i)
        tensor.values[i] = std::ldexp(tensor.values[i], static_cast<int>(exponent[i / width]));
    }
    result[tensor.name] = std::move(tensor);
  }
  return result;
}

}  // namespace kdagen
