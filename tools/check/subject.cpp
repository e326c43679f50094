// SPDX-License-Identifier: Apache-2.0
#include "tools/check/subject.h"

#include <limits>

#include <fmt/format.h>
#include <kdagen/error.h>

#include "tools/check/problem.h"
#include "tools/execute/launch.h"
#include "tools/execute/memory_order.h"

namespace kdagen {
namespace {

class EvaluatedSubject : public Subject {
 public:
  explicit EvaluatedSubject(kda::KernelOp kernel) : kernel_(kernel) {}

  Tensors run(const Tensors& inputs, const Shape& shape) override {
    evaluator::EvaluateOptions options;
    options.arithmetic = evaluator::Arithmetic::f32;
    return tensors_of(evaluator::evaluate(kernel_, arrays_of(inputs), instance_of(shape), options).tensors, kernel_, shape);
  }

 private:
  kda::KernelOp kernel_;
};

runtime::Problem runtime_problem(const Shape& shape, const void* offsets) {
  runtime::Problem problem;
  problem.batch = shape.batch;
  problem.tokens = shape.tokens();
  problem.heads = shape.heads;
  problem.sequences = shape.packed ? shape.sequences() : 0;
  problem.cu_seqlens = offsets;
  problem.offsets = shape.packed ? runtime::OffsetType::i32 : runtime::OffsetType::none;
  return problem;
}

class EmittedSubject : public Subject {
 public:
  EmittedSubject(std::unique_ptr<runtime::Kernel> kernel, int device_ordinal)
      : kernel_(std::move(kernel)), device_ordinal_(device_ordinal) {}

  Tensors run(const Tensors& inputs, const Shape& shape) override {
    TensorBuffers buffers = fill_buffers(inputs, shape);
    TensorBuffers again;
    if (!repeated_) again = buffers;
    launch(buffers, shape, 1);
    if (!again.empty()) launch(again, shape, 2);
    repeated_ = true;
    Tensors result;
    for (const runtime::TensorInfo& info : kernel_->manifest().tensors) {
      if (info.direction != runtime::Direction::out) continue;
      if (!again.empty() && buffers.at(info.name).data != again.at(info.name).data)
        throw CheckError(fmt::format("{}: {} differs between two runs of the same text on the same input",
                                     kernel_->manifest().kernel, info.name));
      result[info.name] = read_back(info, buffers.at(info.name), shape);
    }
    return result;
  }

 private:
  TensorBuffers fill_buffers(const Tensors& inputs, const Shape& shape) const {
    const runtime::Manifest& manifest = kernel_->manifest();
    const runtime::Problem problem = runtime_problem(shape, shape.packed ? &shape : nullptr);
    TensorBuffers buffers;
    for (const runtime::TensorInfo& info : manifest.tensors) {
      const bool input = info.direction == runtime::Direction::in;
      auto found = inputs.find(info.name);
      if (input && found == inputs.end()) {
        if (info.optional) continue;
        throw KdagenBug("check: no input for " + info.name);
      }
      runtime::HostTensor buffer(info.dtype, runtime::tensor_shape(manifest, info, problem));
      const DenseIndex index(manifest, info, instance_of(shape));
      for_each_element(index, buffer.shape, [&](int64_t element, int64_t canonical) {
        const bool given = input && canonical >= 0;
        buffer.set(element, given ? found->second.values[canonical] : std::numeric_limits<double>::quiet_NaN());
      });
      buffers.emplace(info.name, std::move(buffer));
    }
    return buffers;
  }

  HostTensor read_back(const runtime::TensorInfo& info, const runtime::HostTensor& buffer, const Shape& shape) const {
    const DenseIndex index(kernel_->manifest(), info, instance_of(shape));
    std::vector<double> values = to_dense(index, buffer).values;
    return {info.name, std::string(runtime::name_of(info.dtype)), {index.size()}, std::move(values)};
  }

  void launch(TensorBuffers& buffers, const Shape& shape, unsigned order_seed) const {
    std::vector<int32_t> offsets;
    for (int64_t offset : shape.cumulative_lengths()) offsets.push_back(static_cast<int32_t>(offset));
    runtime::LaunchOptions options;
    options.order_seed = order_seed;
    launch_on_host(*kernel_, buffers, runtime_problem(shape, shape.packed ? offsets.data() : nullptr), device_ordinal_, options);
  }

  std::unique_ptr<runtime::Kernel> kernel_;
  int device_ordinal_;
  bool repeated_ = false;
};

}  // namespace

std::unique_ptr<Subject> evaluated_subject(kda::KernelOp kernel) { return std::make_unique<EvaluatedSubject>(kernel); }

std::unique_ptr<Subject> emitted_subject(std::unique_ptr<runtime::Kernel> kernel, int device_ordinal) {
  return std::make_unique<EmittedSubject>(std::move(kernel), device_ordinal);
}

}  // namespace kdagen
