// SPDX-License-Identifier: Apache-2.0
#include "tools/execute/run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kdagen/error.h>
#include <kdagen/text.h>

#include "tools/execute/interface.h"
#include "tools/execute/launch.h"
#include "tools/execute/memory_order.h"
#include "tools/tune/tune.h"

namespace kdagen {
namespace {

constexpr const char* offsets_name = "cu_seqlens";

std::set<std::string> outputs_of(Compilation& compilation) {
  std::set<std::string> names;
  for (const evaluator::TensorInfo& info : evaluator::tensors_of(compilation.kernel(Stage::derived), {}))
    if (info.is_output) names.insert(info.name);
  return names;
}

/// A tap that the pass writes anyway needs no second tensor.
Compilation compile(const RunRequest& request) {
  CompileOptions options = request.options;
  options.taps.clear();
  Compilation plain(request.graph, request.direction, options);
  if (request.options.taps.empty()) return plain;
  const std::set<std::string> outputs = outputs_of(plain);
  std::set<std::string> seen;
  for (const std::string& tap : request.options.taps)
    if (!outputs.count(tap) && seen.insert(tap).second) options.taps.push_back(tap);
  return Compilation(request.graph, request.direction, options);
}

class Run {
 public:
  Run(const RunRequest& request, const runtime::TensorFile& input)
      : request_(request), compilation_(compile(request)), manifest_(interface_of(kernel(), request.options)) {
    compilation_.require_ranges();
    take_inputs(input);
    find_sizes(input);
    if (on_cpu_f64()) widen_interface();
    for (const runtime::TensorInfo& info : manifest_.tensors)
      if (info.direction == runtime::Direction::out)
        tensors_[info.name] = runtime::HostTensor(info.dtype, runtime::tensor_shape(manifest_, info, problem_));
    check_call();
  }

  runtime::TensorFile outputs() {
    if (request_.place == Place::cpu)
      evaluate();
    else
      launch();
    runtime::TensorFile file;
    for (const runtime::TensorInfo& info : manifest_.tensors)
      if (info.direction == runtime::Direction::out) file.tensors[info.name] = std::move(tensors_.at(info.name));
    file.metadata = {{"kernel", manifest_.kernel}, {"spec_hash", compilation_.spec_hash()}};
    return file;
  }

 private:
  kda::KernelOp kernel() { return compilation_.kernel(Stage::rewritten); }
  bool on_cpu_f64() const { return request_.place == Place::cpu && request_.options.arithmetic == Arithmetic::f64; }

  /// The interface of the pass that is not run.
  runtime::Manifest other_interface() const {
    CompileOptions options = request_.options;
    options.taps.clear();
    Compilation other(request_.graph, request_.direction == Direction::fwd ? Direction::bwd : Direction::fwd, options);
    return interface_of(other.kernel(Stage::derived), options);
  }

  void take_inputs(const runtime::TensorFile& input) {
    std::optional<runtime::Manifest> other;
    for (const auto& [name, tensor] : input.tensors) {
      if (name == offsets_name) continue;
      const runtime::TensorInfo* info = manifest_.find_tensor(name);
      if (info && info->direction == runtime::Direction::in) tensors_[name] = tensor;
      if (info) continue;
      if (!other) other = other_interface();
      if (!other->find_tensor(name)) refuse_name(name);
    }
    if (auto found = input.tensors.find(offsets_name); found != input.tensors.end()) offsets_ = found->second;
  }

  [[noreturn]] void refuse_name(const std::string& name) const {
    std::vector<std::string> inputs{offsets_name};
    for (const runtime::TensorInfo& info : manifest_.tensors)
      if (info.direction == runtime::Direction::in) inputs.push_back(info.name);
    throw UsageError(fmt::format("--in: {} has no tensor \"{}\"{}; it takes {}", manifest_.kernel, name,
                                 text::did_you_mean(name, inputs), fmt::join(inputs, ", ")));
  }

  /// Read off the pass's inputs, or off the forward's where a backward has none with tokens.
  void find_sizes(const runtime::TensorFile& input) {
    std::optional<runtime::TensorRef> offsets;
    if (offsets_) offsets = runtime::ref(offsets_name, *offsets_);
    const auto sizes = [&](const runtime::Manifest& manifest) {
      std::vector<runtime::TensorRef> refs;
      for (const auto& [name, tensor] : input.tensors)
        if (const auto* info = manifest.find_tensor(name); info && info->direction == runtime::Direction::in)
          refs.push_back({name, nullptr, tensor.dtype, tensor.shape, {}, -1});
      problem_ = runtime::problem_of(manifest, refs, offsets ? &*offsets : nullptr);
    };
    const bool has_tokens = std::any_of(manifest_.tensors.begin(), manifest_.tensors.end(), [&](const auto& info) {
      const auto dims = runtime::dimensions(manifest_, info);
      return tensors_.count(info.name) && std::find(dims.begin(), dims.end(), runtime::DimRole::tokens) != dims.end();
    });
    if (has_tokens || request_.direction == Direction::fwd)
      sizes(manifest_);
    else
      sizes(other_interface());
  }

  /// float64 in, float64 out.
  void widen_interface() {
    for (runtime::TensorInfo& info : manifest_.tensors) {
      const bool integer = info.dtype == runtime::DType::i8 || info.dtype == runtime::DType::i32;
      auto given = tensors_.find(info.name);
      const bool out = info.direction == runtime::Direction::out;
      const bool given_f64 = given != tensors_.end() && given->second.dtype == runtime::DType::f64;
      if (!integer && (out || given_f64)) info.dtype = runtime::DType::f64;
    }
  }

  /// Everything that can be wrong with the call, before anything is computed.
  void check_call() {
    std::vector<runtime::TensorRef> refs;
    for (auto& [name, tensor] : tensors_) refs.push_back(runtime::ref(name, tensor));
    runtime::bind_tensors(manifest_, problem_, refs);
    runtime::check_offsets(problem_);
    for (auto input : kernel().block().getOps<kda::InputOp>()) check_promise(input);
  }

  /// A spec's ranges are proven from the bounds of its inputs. NaN is let through: it shows in the results.
  void check_promise(kda::InputOp input) {
    const auto given = tensors_.find(input.getTensor().str());
    if (given == tensors_.end() || (!input.getLower() && !input.getUpper())) return;
    const double lower = input.getLower() ? input.getLower()->convertToDouble() : -INFINITY;
    const double upper = input.getUpper() ? input.getUpper()->convertToDouble() : INFINITY;
    const runtime::TensorInfo& info = *manifest_.find_tensor(given->first);
    const evaluator::Instance instance = instance_of(problem_);
    int64_t live = 0;
    for (const int64_t length : instance.seqlens) live += length;
    const DenseIndex index(manifest_, info, instance);
    const int64_t end = runtime::is_row_tensor(manifest_, info) && instance.rows() > 0
                            ? index.size() / instance.rows() * live
                            : index.size();
    for_each_element(index, given->second.shape, [&](int64_t element, int64_t dense) {
      const double value = given->second.get(element);
      if (dense >= 0 && dense < end && (value < lower || value > upper))
        throw UsageError(fmt::format("tensor \"{}\" of {} holds {} at element {}; the spec promises {} to {}",
                                     given->first, manifest_.kernel, value, element, lower, upper));
    });
  }

  void evaluate() {
    if (runtime::is_empty(problem_)) return;  // outputs are 0
    const evaluator::Instance instance = instance_of(problem_);
    const bool f64 = on_cpu_f64();
    evaluator::Arrays inputs;
    for (const auto& [name, tensor] : tensors_) {
      const runtime::TensorInfo* info = manifest_.find_tensor(name);
      if (info->direction == runtime::Direction::in) inputs[name] = to_dense({manifest_, *info, instance}, tensor);
    }
    evaluator::EvaluateOptions options;
    options.arithmetic = f64 ? evaluator::Arithmetic::f64 : evaluator::Arithmetic::f32;
    options.obey_rounds = true;
    options.round_inputs = !f64;
    options.store_rounding = !f64;
    const evaluator::Arrays results = evaluator::evaluate(kernel(), inputs, instance, options).tensors;
    for (auto& [name, tensor] : tensors_) {
      const runtime::TensorInfo* info = manifest_.find_tensor(name);
      if (info->direction == runtime::Direction::out)
        from_dense({manifest_, *info, instance}, results.at(name).values, tensor);
    }
  }

  void launch() {
    const bool cuda = request_.place == Place::cuda;
    emit::Emitted emitted = tune::emit_tuned(compilation_, cuda ? runtime::device_info(0).arch : "sm_90", problem_);
    std::unique_ptr<runtime::Kernel> kernel;
    if (cuda)
      kernel = runtime::make_cuda_kernel(emitted.text, emitted.manifest);
    else
      kernel = runtime::make_emulated_kernel(emitted.text, emitted.manifest);
    // An element that the kernel leaves out shows as NaN.
    for (auto& [name, tensor] : tensors_)
      if (manifest_.find_tensor(name)->direction == runtime::Direction::out && !tensor.data.empty())
        std::memset(tensor.data.data(), 0xff, tensor.data.size());
    launch_on_host(*kernel, tensors_, problem_, cuda ? 0 : on_emulator);
  }

  const RunRequest& request_;
  Compilation compilation_;
  runtime::Manifest manifest_;
  TensorBuffers tensors_;
  std::optional<runtime::HostTensor> offsets_;
  runtime::Problem problem_;
};

}  // namespace

runtime::TensorFile run_pass(const RunRequest& request, const runtime::TensorFile& input) {
  return Run(request, input).outputs();
}

}  // namespace kdagen
