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
    return tensors_of(evaluator::evaluate(kernel_, arrays_of(inputs), instance_of(shape), options).tensors, kernel_,
                      shape);
  }

 private:
  kda::KernelOp kernel_;
};

runtime::Problem runtime_problem(const Shape& shape, const void* offsets, runtime::OffsetType type) {
  runtime::Problem problem;
  problem.batch = shape.batch;
  problem.tokens = shape.tokens();
  problem.heads = shape.heads;
  problem.sequences = shape.packed ? shape.sequences() : 0;
  problem.cu_seqlens = offsets;
  problem.offsets = shape.packed ? type : runtime::OffsetType::none;
  return problem;
}

class EmittedSubject : public Subject {
 public:
  EmittedSubject(std::unique_ptr<runtime::Kernel> kernel, int device_ordinal, unsigned orders, CallersMemory memory)
      : kernel_(std::move(kernel)), device_ordinal_(device_ordinal), orders_(orders), memory_(memory) {}

  Tensors run(const Tensors& inputs, const Shape& shape) override {
    TensorBuffers buffers = fill_buffers(inputs, shape);
    const TensorBuffers before = repeated_ ? TensorBuffers() : buffers;
    launch(buffers, shape, 1);
    if (!repeated_) repeat(before, buffers, shape);
    repeated_ = true;
    Tensors result;
    for (const runtime::TensorInfo& info : kernel_->manifest().tensors)
      if (info.direction == runtime::Direction::out) result[info.name] = read_back(info, buffers.at(info.name), shape);
    return result;
  }

 private:
  /// Launches 2, 3, ...: what may differ between calls on the same numbers does, but for the bits they write.
  void repeat(const TensorBuffers& before, const TensorBuffers& first, const Shape& shape) const {
    for (unsigned order = 2; order <= orders_; ++order) {
      TensorBuffers again = before;
      launch(again, shape, order);
      for (const auto& [name, buffer] : first)
        if (buffer.data != again.at(name).data)
          throw CheckError(fmt::format(
              "{}: {} differs between two runs of the same text on the same input{}", kernel_->manifest().kernel, name,
              is_unlike(order)
                  ? ", the second with another alignment, other strides and width of offsets, and outputs in the memory of inputs they repeat"
                  : ""));
    }
  }

  static bool is_unlike(unsigned order) { return order % 2 == 0; }

  CallersMemory memory(unsigned order) const {
    using runtime::OffsetType;
    if (!is_unlike(order)) return memory_;
    return {memory_.offsets == OffsetType::i32 ? OffsetType::i64 : OffsetType::i32, memory_.base_offset == 0 ? 1 : 0,
            !memory_.shared, memory_.strides == 0 ? order : 0};
  }

  TensorBuffers fill_buffers(const Tensors& inputs, const Shape& shape) const {
    const runtime::Manifest& manifest = kernel_->manifest();
    const runtime::Problem problem = runtime_problem(shape, shape.packed ? &shape : nullptr, runtime::OffsetType::i32);
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

  void launch(TensorBuffers& buffers, const Shape& shape, unsigned order) const {
    const std::vector<int64_t> wide = shape.cumulative_lengths();
    const std::vector<int32_t> narrow(wide.begin(), wide.end());
    const CallersMemory memory = this->memory(order);
    const void* offsets = wide.data();
    if (memory.offsets == runtime::OffsetType::i32) offsets = narrow.data();
    const runtime::Problem problem = runtime_problem(shape, shape.packed ? offsets : nullptr, memory.offsets);
    runtime::LaunchOptions options;
    options.order_seed = order;
    launch_on_host(*kernel_, buffers, problem, device_ordinal_, options, memory);
  }

  std::unique_ptr<runtime::Kernel> kernel_;
  int device_ordinal_;
  unsigned orders_;
  CallersMemory memory_;
  bool repeated_ = false;
};

}  // namespace

std::unique_ptr<Subject> evaluated_subject(kda::KernelOp kernel) { return std::make_unique<EvaluatedSubject>(kernel); }

std::unique_ptr<Subject> emitted_subject(std::unique_ptr<runtime::Kernel> kernel, int device_ordinal, unsigned orders,
                                         CallersMemory memory) {
  return std::make_unique<EmittedSubject>(std::move(kernel), device_ordinal, orders, memory);
}

}  // namespace kdagen
