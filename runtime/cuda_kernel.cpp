// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/kernel.h"
#include "runtime/launch_plan.h"
#include "runtime/runs.h"
#include "runtime/tensor_map.h"

namespace kdagen::runtime {
namespace {

// The two variants of a text's entries (see the device prelude) are compiled apart, each when it is first needed. A
// binary that was made ahead of time holds both.
enum class Variant { aligned, any, both };
constexpr Variant variants[] = {Variant::aligned, Variant::any};

std::vector<std::string> entries_of(const LaunchInfo& launch, Variant variant) {
  if (launch.entry_any.empty()) return {launch.entry};
  if (variant == Variant::both) return {launch.entry, launch.entry_any};
  return {variant == Variant::any ? launch.entry_any : launch.entry};
}

struct Loaded {
  CompiledText compiled;  // without the image
  std::unique_ptr<LoadedModule> module;
  std::map<std::string, LoadedFunction> functions;
};

// The best of those that run on `arch`: its own, then the newest cubin of its major number, then the newest PTX.
const PrebuiltBinary* find_binary(const std::vector<PrebuiltBinary>& binaries, const Arch& arch) {
  const PrebuiltBinary* best = nullptr;
  int best_rank = 0;
  for (const PrebuiltBinary& binary : binaries) {
    const bool ptx = binary.arch.starts_with("compute_");
    const Arch built = parse_arch(ptx ? "sm_" + binary.arch.substr(8) : binary.arch);
    const bool own = built.number == arch.number;
    const bool runs =
        own || (built.number < arch.number && built.suffix.empty() && (ptx || built.number / 10 == arch.number / 10));
    const int rank = (ptx ? 0 : 100000) + built.number;
    if (!runs || rank <= best_rank) continue;
    best = &binary;
    best_rank = rank;
  }
  return best;
}

class CudaKernelImpl : public CudaKernel {
 public:
  CudaKernelImpl(std::string text, Manifest manifest, KernelOptions options)
      : CudaKernel(std::move(text), std::move(manifest), std::move(options)) {
    for (const PrebuiltBinary& binary : this->options().binaries) CudaKernelImpl::add_binary(binary);
  }

  void add_binary(PrebuiltBinary binary) override {
    find_binary({binary}, {oldest_arch, ""});  // refuses an arch that is none
    const std::lock_guard lock(mutex_);
    binaries_.push_back(std::move(binary));
  }

  void launch(const std::vector<TensorRef>& tensors, const Problem& problem, const LaunchOptions& options) override {
    std::shared_ptr<const LaunchPlan> plan = plans_.find(tensors, problem);
    if (!plan) {
      Binding binding = bind_tensors(manifest(), problem, tensors);
      check_memory(problem, binding);
      const ContextScope scope(binding.device_ordinal);  // tensor maps are encoded for it
      plan = std::make_shared<LaunchPlan>(manifest(), problem, tensors, std::move(binding),
                                          [&](const BoundTensor& tensor, int rows) {
                                            return cuda_tensor_map(tensor_box(manifest(), problem, tensor, rows));
                                          });
      plans_.add(plan);
    }
    if (is_empty(problem))
      zero_outputs(plan->binding, options);
    else
      run(*plan, options);
  }

  void warm_up(int device_ordinal) override {
    const ContextScope scope(device_ordinal);
    for (const Variant variant : variants) loaded(device_ordinal, variant, scope, nullptr, false);
    warm_up_stream_memory(device_ordinal);
  }

  std::vector<EntryReport> report(int device_ordinal) override {
    const ContextScope scope(device_ordinal);
    std::map<std::string, EntryReport> reports;
    for (const Variant variant : variants) {
      const Loaded& kernel = loaded(device_ordinal, variant, scope, nullptr, false);
      for (const auto& [entry, function] : kernel.functions) {
        EntryReport report{entry, function.attributes, {}};
        for (const EntryResources& resources : kernel.compiled.resources)
          if (resources.entry == entry) report.resources = resources;
        reports.emplace(entry, report);
      }
    }
    std::vector<EntryReport> result;
    for (const auto& [entry, report] : reports) result.push_back(report);
    return result;
  }

 private:
  void check_memory(const Problem& problem, const Binding& binding) const {
    const int device = binding.device_ordinal;
    if (device < 0)
      throw UsageError(
          fmt::format("the tensors of {} are in host memory; a CUDA launch takes device memory", manifest().kernel));
    device_info(device);
    const auto check = [&](std::string_view name, const void* data) {
      const int owner = device_of_pointer(data);
      if (owner == device) return;
      throw UsageError(fmt::format("{} of {} is {}; expected memory of device {}", name, manifest().kernel,
                                   owner < 0 ? "not in device memory" : fmt::format("on device {}", owner), device));
    };
    for (const BoundTensor& tensor : binding.tensors)
      if (tensor.present && element_count(tensor.view.shape) > 0)
        check(fmt::format("tensor \"{}\"", tensor.info->name), tensor.data);
    if (problem.packed() && !is_empty(problem)) check("cu_seqlens", problem.cu_seqlens);
  }

  void zero_outputs(const Binding& binding, const LaunchOptions& options) const {
    const ContextScope scope(binding.device_ordinal);
    for (const BoundTensor& tensor : binding.tensors) {
      if (!tensor.present || tensor.info->direction != Direction::out) continue;
      for_each_block(tensor.view, [&](const MemoryBlock& block) {
        const CudaPointer start = tensor.view.base + static_cast<CudaPointer>(block.offset);
        const CudaResult result =
            block.rows == 1 ? driver().MemsetD8Async(start, 0, block.width, options.stream)
                            : driver().MemsetD2D8Async(start, block.pitch, 0, block.width, block.rows, options.stream);
        check_driver(result, fmt::format("zero the tensor {}", tensor.info->name));
      });
    }
  }

  void run(const LaunchPlan& plan, const LaunchOptions& options) {
    if (options.workspace.data) plan.check_workspace(options.workspace.data, options.workspace.bytes);
    const int device = plan.binding.device_ordinal;
    const ContextScope scope(device);
    const Variant variant = plan.binding.aligned ? Variant::aligned : Variant::any;
    const Loaded& kernel = loaded(device, variant, scope, options.stream, true);
    const StreamMemory own(device, options.workspace.data ? 0 : plan.layout.bytes, options.stream);
    const std::vector<std::uint64_t> words =
        plan.words_for(options.workspace.data ? options.workspace.data : own.data());
    for (const LaunchStep& step : plan.steps)
      launch_kernel(kernel.functions.at(step.entry), step.grid, step.info->block, step.info->shared_bytes,
                    options.stream, words, step.entry);
  }

  // Entries stay until the kernel goes, so the reference holds; a context's id is never used again.
  const Loaded& loaded(int ordinal, Variant variant, const ContextScope& scope, CudaStream stream, bool may_capture) {
    const std::lock_guard lock(mutex_);
    for (const Variant present : {Variant::both, variant})
      if (const auto found = loaded_.find({ordinal, scope.id(), present}); found != loaded_.end())
        return *found->second;
    if (may_capture && is_capturing(stream))
      throw UsageError(
          fmt::format("{} is used for the first time on device {} while a graph is captured: launch it once or "
                      "call warm_up before the capture",
                      manifest().kernel, ordinal));
    const Arch arch = parse_arch(arch_on(device_info(ordinal)));
    if (find_binary(binaries_, arch)) variant = Variant::both;
    std::unique_ptr<Loaded> kernel = load(ordinal, arch, variant);
    return *(loaded_[{ordinal, scope.id(), variant}] = std::move(kernel));
  }

  std::unique_ptr<Loaded> load(int ordinal, const Arch& arch, Variant variant) {
    auto kernel = std::make_unique<Loaded>();
    kernel->compiled = obtain(arch, variant);
    kernel->module = std::make_unique<LoadedModule>(ordinal, kernel->compiled.image, manifest().kernel);
    kernel->compiled.image.clear();
    for (const LaunchInfo& launch : manifest().launches)
      for (const std::string& entry : entries_of(launch, variant)) {
        const LoadedFunction function = kernel->module->prepare(entry, launch.block, launch.shared_bytes);
        check_arguments(entry, function);
        kernel->functions[entry] = function;
      }
    return kernel;
  }

  CompiledText obtain(const Arch& arch, Variant variant) const {
    if (const PrebuiltBinary* binary = find_binary(binaries_, arch)) {
      CompiledText prebuilt;
      prebuilt.image = binary->image;
      prebuilt.target = binary->arch;
      prebuilt.compiler = "ahead of time";
      return prebuilt;
    }
    CompileOptions compile_options;
    compile_options.compiler = options().compiler ? *options().compiler : default_cuda_compiler();
    compile_options.kernel = manifest().kernel;
    compile_options.newer_device = true;
    compile_options.extra = options().compiler_options;
    compile_options.extra.push_back(variant == Variant::any ? "-DKDAGEN_VARIANTS=2" : "-DKDAGEN_VARIANTS=1");
    return compile(text(), arch.sm(), compile_options, cache());
  }

  void check_arguments(const std::string& entry, const LoadedFunction& function) const {
    const std::int64_t described = std::int64_t{8} * argument_words(manifest());
    if (function.parameter_bytes >= 0 && function.parameter_bytes != described)
      throw UsageError(
          fmt::format("{} takes {} bytes of arguments, the manifest of {} describes {}: text and manifest do not "
                      "belong together",
                      entry, function.parameter_bytes, manifest().kernel, described));
  }

  std::string arch_on(const DeviceInfo& device) const {
    const Arch emitted = parse_arch(manifest().arch), present = parse_arch(device.arch);
    if (emitted.number > present.number || (!emitted.suffix.empty() && emitted.number != present.number))
      throw UsageError(fmt::format("{} was emitted for {}; device {} ({}) is {}", manifest().kernel, emitted.sm(),
                                   device.ordinal, device.name, present.sm()));
    return emitted.number == present.number ? emitted.sm() : present.sm();
  }

  LaunchPlans plans_;
  std::mutex mutex_;
  std::vector<PrebuiltBinary> binaries_;
  std::map<std::tuple<int, std::uint64_t, Variant>, std::unique_ptr<Loaded>> loaded_;
};

}  // namespace

std::unique_ptr<CudaKernel> make_cuda_kernel(std::string text, Manifest manifest, KernelOptions options) {
  return std::make_unique<CudaKernelImpl>(std::move(text), std::move(manifest), std::move(options));
}

}  // namespace kdagen::runtime
