// SPDX-License-Identifier: Apache-2.0
#include "tools/check/subject.h"

#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <kdagen/error.h>

#include "runtime/safetensors.h"
#include "tools/check/problem.h"

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

/// Position of an element of the tensor in memory inside the canonical array, -1 for padding rows of tiles.
class CanonicalIndex {
 public:
  CanonicalIndex(const runtime::Manifest& manifest, const runtime::TensorInfo& tensor, const Shape& shape)
      : shape_(shape), dims_(runtime::dimensions(manifest, tensor)), tiles_(shape.tiles()) {
    for (runtime::DimRole role : dims_) {
      has_head_ |= role == runtime::DimRole::head;
      has_feature_ |= role == runtime::DimRole::feature;
      padded_rows_ |= role == runtime::DimRole::chunk_row;
    }
  }

  int64_t operator()(const std::vector<int64_t>& position) const {
    int64_t batch = 0, token = 0, head = 0, feature = 0, tile = 0, row = 0;
    for (size_t i = 0; i < dims_.size(); ++i) {
      switch (dims_[i]) {
        case runtime::DimRole::batch: batch = position[i]; break;
        case runtime::DimRole::tokens: token = position[i]; break;
        case runtime::DimRole::head: head = position[i]; break;
        case runtime::DimRole::feature: feature = position[i]; break;
        case runtime::DimRole::tile: tile = position[i]; break;
        case runtime::DimRole::chunk_row: row = position[i]; break;
      }
    }
    int64_t outer = batch * shape_.tokens() + token + tile;
    if (padded_rows_) {
      if (tile >= static_cast<int64_t>(tiles_.size()) || row >= tiles_[tile].rows) return -1;
      outer = tiles_[tile].first_row + row;
    }
    if (has_head_) outer = outer * shape_.heads + head;
    return has_feature_ ? outer * shape_.dim + feature : outer;
  }

 private:
  const Shape& shape_;
  std::vector<runtime::DimRole> dims_;
  std::vector<Tile> tiles_;
  bool has_head_ = false, has_feature_ = false, padded_rows_ = false;
};

/// Calls visit(element in memory, canonical element or -1) for every element.
template <class Visit>
void for_each_element(const runtime::Manifest& manifest, const runtime::TensorInfo& tensor, const runtime::Dims& extents,
                      const Shape& shape, Visit visit) {
  const CanonicalIndex index(manifest, tensor, shape);
  std::vector<int64_t> position(extents.size(), 0);
  const int64_t count = runtime::element_count(extents);
  for (int64_t element = 0; element < count; ++element) {
    visit(element, index(position));
    for (size_t i = extents.size(); i-- > 0;) {
      if (++position[i] < extents[i]) break;
      position[i] = 0;
    }
  }
}

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
    std::map<std::string, runtime::HostTensor> buffers = fill_buffers(inputs, shape);
    std::map<std::string, runtime::HostTensor> again;
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
  std::map<std::string, runtime::HostTensor> fill_buffers(const Tensors& inputs, const Shape& shape) const {
    const runtime::Manifest& manifest = kernel_->manifest();
    const runtime::Problem problem = runtime_problem(shape, shape.packed ? &shape : nullptr);
    std::map<std::string, runtime::HostTensor> buffers;
    for (const runtime::TensorInfo& info : manifest.tensors) {
      const bool input = info.direction == runtime::Direction::in;
      auto found = inputs.find(info.name);
      if (input && found == inputs.end()) {
        if (info.optional) continue;
        throw KdagenBug("check: no input for " + info.name);
      }
      runtime::HostTensor buffer(info.dtype, runtime::tensor_shape(manifest, info, problem));
      for_each_element(manifest, info, buffer.shape, shape, [&](int64_t element, int64_t canonical) {
        const bool given = input && canonical >= 0;
        buffer.set(element, given ? found->second.values[canonical] : std::numeric_limits<double>::quiet_NaN());
      });
      buffers.emplace(info.name, std::move(buffer));
    }
    return buffers;
  }

  HostTensor read_back(const runtime::TensorInfo& info, const runtime::HostTensor& buffer, const Shape& shape) const {
    HostTensor result{info.name, std::string(runtime::name_of(info.dtype)), {}, {}};
    int64_t size = 0;
    auto visit_all = [&](auto visit) { for_each_element(kernel_->manifest(), info, buffer.shape, shape, visit); };
    visit_all([&](int64_t, int64_t canonical) { size = std::max(size, canonical + 1); });
    result.values.assign(size, 0.0);
    result.shape = {size};
    visit_all([&](int64_t element, int64_t canonical) {
      if (canonical >= 0) result.values[canonical] = buffer.get(element);
    });
    return result;
  }

  void launch(std::map<std::string, runtime::HostTensor>& buffers, const Shape& shape, unsigned order_seed) const {
    std::vector<int32_t> offsets;
    for (int64_t offset : shape.cumulative_lengths()) offsets.push_back(static_cast<int32_t>(offset));
    runtime::LaunchOptions options;
    options.order_seed = order_seed;
    std::vector<runtime::TensorRef> tensors;
    for (auto& [name, buffer] : buffers) tensors.push_back(runtime::ref(name, buffer));
    if (device_ordinal_ < 0) {
      kernel_->launch(tensors, runtime_problem(shape, shape.packed ? offsets.data() : nullptr), options);
      return;
    }
    launch_on_device(tensors, shape, offsets, options);
  }

  void launch_on_device(std::vector<runtime::TensorRef> tensors, const Shape& shape, const std::vector<int32_t>& offsets,
                        runtime::LaunchOptions options) const {
    std::vector<runtime::DeviceBuffer> memory;
    std::vector<void*> host;
    for (runtime::TensorRef& tensor : tensors) {
      const int64_t bytes = runtime::element_count(tensor.shape) * runtime::size_of(tensor.dtype);
      memory.emplace_back(device_ordinal_, std::max<int64_t>(bytes, 1));
      if (bytes) memory.back().upload(tensor.data, bytes);
      host.push_back(tensor.data);
      tensor.data = memory.back().data();
      tensor.device_ordinal = device_ordinal_;
    }
    runtime::DeviceBuffer offset_memory(device_ordinal_, std::max<int64_t>(offsets.size() * sizeof(int32_t), 4));
    if (!offsets.empty()) offset_memory.upload(offsets.data(), offsets.size() * sizeof(int32_t));
    const runtime::Stream stream(device_ordinal_);
    options.stream = stream.get();
    kernel_->launch(tensors, runtime_problem(shape, shape.packed ? offset_memory.data() : nullptr), options);
    stream.synchronize();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int64_t bytes = runtime::element_count(tensors[i].shape) * runtime::size_of(tensors[i].dtype);
      if (bytes) memory[i].download(host[i], bytes);
    }
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
