// SPDX-License-Identifier: Apache-2.0
#include "codegen/evaluator/evaluator.h"

#include <fmt/format.h>
#include <kdagen/error.h>

#include "codegen/evaluator/executor.h"

namespace kdagen::evaluator {
namespace {

std::vector<int64_t> shape_of(const Tensor& tensor, const Program& program, const Instance& instance) {
  std::vector<int64_t> shape;
  if (tensor.place == Place::token) shape.push_back(instance.rows());
  if (tensor.place == Place::chunk) shape.push_back(instance.capacity(program.chunk));
  if (tensor.every > 0) shape.push_back((program.chunk + tensor.every - 1) / tensor.every);
  if (tensor.axes.heads) shape.push_back(instance.heads);
  if (tensor.axes.columns) shape.push_back(program.dim);
  return shape;
}

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

/// Checks the inputs and rounds them to their storage.
std::vector<std::vector<double>> round_inputs(const Program& program, const Arrays& inputs, const Instance& instance,
                                              bool round, InputValues& pointers) {
  std::vector<std::vector<double>> rounded(program.inputs.size());
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Tensor& tensor = program.inputs[i];
    auto found = inputs.find(tensor.name);
    if (found == inputs.end()) {
      if (!tensor.optional) throw UsageError(fmt::format("input '{}' is missing", tensor.name));
      pointers.push_back(nullptr);
      continue;
    }
    std::vector<int64_t> shape = shape_of(tensor, program, instance);
    const std::vector<double>& given = found->second.values;
    int64_t needed = element_count(shape), count = static_cast<int64_t>(given.size());
    if (tensor.place == Place::chunk &&
        shape[0] > 0)  // surplus tiles are never read: the tiles that hold rows are enough
      needed = needed / shape[0] * static_cast<int64_t>(instance.tiles(program.chunk).size());
    if (count < needed || (count != needed && count != element_count(shape)))
      throw UsageError(fmt::format("input '{}' has {} elements; the shape [{}] needs {}", tensor.name, count,
                                   fmt::join(shape, ", "), element_count(shape)));
    if (!round || tensor.storage.precision == 53) {
      pointers.push_back(&given);
      continue;
    }
    rounded[i].resize(given.size());
    for (size_t k = 0; k < given.size(); ++k) rounded[i][k] = round_to(given[k], tensor.storage);
    pointers.push_back(&rounded[i]);
  }
  return rounded;
}

}  // namespace

Result evaluate(kda::KernelOp kernel, const Arrays& inputs, const Instance& instance, const EvaluateOptions& options) {
  instance.validate();
  if (options.running_error && options.arithmetic == Arithmetic::f32)
    throw KdagenBug("the running error is carried beside float64 values only");
  Program program = build_program(kernel, {options.taps.begin(), options.taps.end()});
  std::vector<std::vector<int64_t>> shapes;
  for (const Tensor& tensor : program.outputs) shapes.push_back(shape_of(tensor, program, instance));
  InputValues pointers;
  auto rounded = round_inputs(program, inputs, instance, options.round_inputs, pointers);
  if (options.arithmetic == Arithmetic::f32) return Executor<float>(program, instance, pointers, options).run(shapes);
  if (options.running_error) return Executor<Tracked>(program, instance, pointers, options).run(shapes);
  return Executor<double>(program, instance, pointers, options).run(shapes);
}

}  // namespace kdagen::evaluator
