// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/tune.h"

#include <algorithm>
#include <limits>
#include <thread>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/cache.h"
#include "runtime/warn.h"
#include "tools/tune/device_bench.h"

namespace kdagen::tune {
namespace {

constexpr int device_ordinal = 0;
constexpr int most_compared = 3;  // of the stored schedules, until one is found that passes

runtime::TuningStore store_of(const runtime::DeviceInfo& device, const runtime::Manifest& manifest) {
  return {runtime::Cache::shared().directory().path, device.name, device.arch, manifest.kernel};
}

/// The device to run on, if there is one and texts for `arch` are its own.
std::optional<runtime::DeviceInfo> device_of(const std::string& arch, std::string& reason) {
  try {
    const runtime::DeviceInfo device = runtime::device_info(device_ordinal);
    if (device.arch == arch) return device;
    reason = fmt::format("the device here ({}) is {}, not {}", device.name, device.arch, arch);
  } catch (const Error&) {
    reason = "there is no device to ask for";
  }
  return {};
}

/// By time, the fastest first.
std::vector<runtime::TuningEntry> usable(std::vector<runtime::TuningEntry> entries) {
  std::erase_if(entries, [](const runtime::TuningEntry& entry) { return !entry.rejected.empty() || entry.ms.empty(); });
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.median() < b.median(); });
  if (static_cast<int>(entries.size()) > most_compared) entries.resize(most_compared);
  return entries;
}

/// The fastest stored schedule that gives the default's bits; empty with a reason.
std::string fastest_stored(Compilation& compilation, const runtime::DeviceInfo& device,
                           const std::optional<runtime::Problem>& problem, std::string& reason) {
  const emit::Emitted plain = emit_kernel_as(compilation, "default", device.arch);
  const std::string compiler = runtime::find_compiler(runtime::default_cuda_compiler()).label();
  runtime::TuningKey key{emit::hash_text(plain.text), compiler,
                         runtime::shape_class(plain.manifest, problem ? *problem : problem_of(BenchSizes()))};
  const runtime::TuningStore store = store_of(device, plain.manifest);
  const std::optional<runtime::ShapeClass> shape = store.nearest(key);
  reason = fmt::format("nothing is stored for {} with these options on {}; kdagen tune would fill that",
                       plain.manifest.kernel, device.name);
  if (!shape) return "";
  key.shape = *shape;
  constexpr int any_spills = std::numeric_limits<int>::max();  // it was judged when it was stored
  std::unique_ptr<SmallReferences> references;
  for (const runtime::TuningEntry& entry : usable(store.entries(key))) {
    std::string failure;
    try {
      const emit::Emitted emitted = emit_kernel_as(compilation, entry.schedule, device.arch);
      if (emit::hash_text(emitted.text) == key.text_hash) return entry.schedule;
      const Built built = build(emitted, device.arch, any_spills);
      if (!references)
        references = std::make_unique<SmallReferences>(*build(plain, device.arch, any_spills).kernel, device.ordinal);
      failure = built.rejected.empty() ? references->difference(*built.kernel) : built.rejected;
    } catch (const UsageError& error) {
      failure = error.what();
    }
    if (failure.empty()) return entry.schedule;
    store.reject(key, entry.schedule, failure);
    runtime::warn_once(
        fmt::format("the stored schedule {} of {} is not used: {}", entry.schedule, plain.manifest.kernel, failure));
    reason = "no stored schedule passes";
  }
  return "";
}

}  // namespace

TuneRun tune(Compilation& compilation, const BenchSizes& sizes, int ordinal, Clock::time_point deadline,
             const Progress& progress) {
  compilation.require_ranges();
  const runtime::DeviceInfo device = runtime::device_info(ordinal);
  const std::vector<Candidate> all =
      candidates(compilation, device.arch, {device.shared_bytes_per_multiprocessor, device.threads_per_multiprocessor});
  DeviceBench bench(compilation, device.arch, sizes, ordinal);
  const runtime::TuningStore store = store_of(device, emit_kernel_as(compilation, "default", device.arch).manifest);
  const auto keep = [&](const std::string& schedule, const Trial& trial) {
    if (trial.rejected.empty())
      store.add_timing(bench.key(), schedule, trial.ms);
    else
      store.reject(bench.key(), schedule, trial.rejected);
  };
  SearchOptions options;
  options.deadline = deadline;
  options.jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return {std::string(direction_name(compilation.direction())),
          search(all, bench, store.entries(bench.key()), options, keep, progress)};
}

std::string schedule_for(Compilation& compilation, const std::string& arch,
                         const std::optional<runtime::Problem>& problem) {
  if (compilation.options().schedule != "tuned") return compilation.options().schedule;
  std::string reason, schedule;
  if (const std::optional<runtime::DeviceInfo> device = device_of(arch, reason)) try {
      schedule = fastest_stored(compilation, *device, problem, reason);
    } catch (const ToolchainError& error) {
      reason = fmt::format("what is stored cannot be compared with it: {}", error.what());
    }
  if (!schedule.empty()) return schedule;
  fmt::print(stderr, "kdagen: note: schedule=tuned is the default schedule here: {}\n", reason);
  return "default";
}

emit::Emitted emit_tuned(Compilation& compilation, const std::string& arch,
                         const std::optional<runtime::Problem>& problem, bool force) {
  if (compilation.options().schedule != "tuned") return emit_kernel(compilation, arch, force);
  if (!force) compilation.require_ranges();
  return emit_kernel_as(compilation, schedule_for(compilation, arch, problem), arch, force);
}

}  // namespace kdagen::tune
