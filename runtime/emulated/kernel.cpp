// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kdagen/error.h"
#include "runtime/emulated/guarded_tensors.h"
#include "runtime/emulator/emulator.h"
#include "runtime/files.h"
#include "runtime/kernel.h"
#include "runtime/runs.h"
#include "runtime/tensor_map.h"

namespace kdagen::runtime {
namespace {

TensorMapWords emulated_tensor_map(const TensorBox& box) {
  emulator::TensorMap map{
      box.base, static_cast<std::uint64_t>(size_of(box.dtype)), {}, {}, {box.extents[0], box.box_rows}};
  std::copy(box.extents.begin(), box.extents.end(), map.extents);
  std::copy(box.strides.begin(), box.strides.end(), map.strides);
  TensorMapWords words{};
  static_assert(sizeof map <= sizeof words);
  std::memcpy(words.data(), &map, sizeof map);
  return words;
}

class EmulatedKernel : public Kernel {
 public:
  using Kernel::Kernel;

  void warm_up(int) override {
    for (const bool aligned : {true, false}) module(aligned);
  }

  void launch(const std::vector<TensorRef>& tensors, const Problem& problem, const LaunchOptions& options) override {
    const Binding binding = bind_tensors(manifest(), problem, tensors);
    check_memory(problem, binding);
    if (is_empty(problem))
      zero_outputs(binding);
    else
      run(problem, binding, options);
  }

 private:
  void check_memory(const Problem& problem, const Binding& binding) const {
    if (binding.device_ordinal >= 0)
      throw UsageError(fmt::format("the tensors of {} are on device {}; the emulator takes host memory",
                                   manifest().kernel, binding.device_ordinal));
    check_offsets(problem);
  }

  void zero_outputs(const Binding& binding) const {
    for (const BoundTensor& tensor : binding.tensors) {
      if (!tensor.present || tensor.info->direction != Direction::out) continue;
      for_each_block(tensor.view, [&](const MemoryBlock& block) {
        for (std::int64_t row = 0; row < block.rows; ++row)
          std::memset(static_cast<char*>(tensor.data) + block.offset + row * block.pitch, 0,
                      static_cast<std::size_t>(block.width));
      });
    }
  }

  void run(const Problem& problem, const Binding& binding, const LaunchOptions& options) {
    const GuardedTensors copies(manifest(), problem, binding, workspace_layout(manifest(), problem));
    const std::vector<std::uint64_t> words =
        build_words(manifest(), copies.problem(), copies.binding(), copies.layout(), copies.workspace(),
                    [&](const BoundTensor& tensor, int rows) {
                      return emulated_tensor_map(tensor_box(manifest(), copies.problem(), tensor, rows));
                    });
    emulator::Options run_options;
    run_options.check = this->options().emulator_check;
    run_options.order_seed = options.order_seed;
    for (const LaunchStep& step : launch_steps(manifest(), problem, binding)) {
      const std::vector<std::string> reports = emulator::run(
          module(binding.aligned), step.entry, {step.grid[0], step.grid[1], step.grid[2]},
          {static_cast<unsigned>(step.info->block), 1, 1}, static_cast<std::size_t>(step.info->shared_bytes),
          words.data(), words.size(), copies.buffers(), run_options);
      fail_on(reports, step.entry, options);
    }
    fail_on(copies.written_gaps(), manifest().kernel, options);
    copies.copy_back(binding);
  }

  static void fail_on(const std::vector<std::string>& reports, const std::string& entry, const LaunchOptions& options) {
    if (reports.empty()) return;
    throw CheckError(fmt::format("{} is faulty; the emulator reports (order seed {}):\n  {}", entry, options.order_seed,
                                 fmt::join(reports, "\n  ")));
  }

  /// The variants of a text's entries (see the device prelude) are compiled apart, each when it is first needed.
  const emulator::Module& module(bool aligned) {
    const std::lock_guard lock(mutex_);
    Variant& variant = variants_[aligned];
    if (variant.module) return *variant.module;
    CompileOptions compile_options;
    compile_options.kernel = manifest().kernel;
    compile_options.emulator_check = options().emulator_check;
    compile_options.extra = options().compiler_options;
    compile_options.extra.push_back(aligned ? "-DKDAGEN_VARIANTS=1" : "-DKDAGEN_VARIANTS=2");
    const CompiledText compiled = compile_host(text(), compile_options, cache());
    if (!compiled.file.empty()) {
      variant.module = std::make_unique<emulator::Module>(compiled.file.string());
      return *variant.module;
    }
    variant.own_folder = cache().scratch();
    const std::filesystem::path object = variant.own_folder.path() / "kernel.so";
    const std::string_view pieces[] = {compiled.image};
    const std::string error = write_file_atomically(object, pieces, false);
    if (!error.empty()) throw ToolchainError(error);
    variant.module = std::make_unique<emulator::Module>(object.string());
    return *variant.module;
  }

  struct Variant {
    TemporaryDirectory own_folder;  // of the shared object, when the cache does not keep it
    std::unique_ptr<emulator::Module> module;
  };
  std::mutex mutex_;
  Variant variants_[2];  // by whether it is for aligned tensors
};

}  // namespace

std::unique_ptr<Kernel> make_emulated_kernel(std::string text, Manifest manifest, KernelOptions options) {
  return std::make_unique<EmulatedKernel>(std::move(text), std::move(manifest), std::move(options));
}

}  // namespace kdagen::runtime
