// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/device_bench.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/benchmarking.h"
#include "runtime/cache.h"
#include "runtime/embedded.h"
#include "runtime/launch_plan.h"

namespace kdagen::tune {
namespace {

constexpr int warm_ups = 3, fewest_repetitions = 7, most_repetitions = 50;
// More, and a kernel would check and lay out each of them anew, between the events.
constexpr int64_t most_calls = runtime::LaunchPlans::capacity;
constexpr double measured_ms = 30;  // of all repetitions together

runtime::CompileOptions compile_options(const runtime::Manifest& manifest) {
  runtime::CompileOptions options;
  options.compiler = runtime::default_cuda_compiler();
  options.kernel = manifest.kernel;
  options.newer_device = true;
  return options;
}

}  // namespace

int spilled_bytes(const runtime::CompiledText& compiled) {
  int bytes = 0;
  for (const runtime::EntryResources& entry : compiled.resources) bytes += entry.spilled_bytes();
  return bytes;
}

Built build(const emit::Emitted& emitted, const std::string& arch, int spills_allowed) {
  try {
    const runtime::CompiledText compiled = runtime::compile(emitted.text, arch, compile_options(emitted.manifest));
    if (const int bytes = spilled_bytes(compiled); bytes > spills_allowed)
      return {nullptr, fmt::format("spills {} bytes", bytes)};
    runtime::KernelOptions options;
    options.binaries.push_back({compiled.target, compiled.image});
    return {runtime::make_cuda_kernel(emitted.text, emitted.manifest, std::move(options)), ""};
  } catch (const runtime::CompileError& error) {
    return {nullptr, fmt::format("not compiled: {}", std::string(error.what()).substr(0, 200))};
  }
}

runtime::TuningStore store_of(const runtime::DeviceInfo& device, const runtime::Manifest& manifest) {
  return {runtime::Cache::shared().directory().path, device.name, device.arch, manifest.kernel};
}

runtime::TuningKey tuning_key(const emit::Emitted& plain, const std::string& compiler, int ordinal,
                              const runtime::Problem& problem, const std::vector<int64_t>& lengths) {
  std::string text = plain.text;
  for (const runtime::EmbeddedFile& header : runtime::runtime_headers()) text += header.text;
  return {emit::hash_text(text), compiler,
          runtime::machine_text(runtime::device_info(ordinal), runtime::driver_status().version),
          runtime::tuning_shape(plain.manifest, problem, lengths)};
}

DeviceBench::DeviceBench(Compilation& compilation, std::string arch, const BenchSizes& sizes, int ordinal,
                         Clock::duration patience)
    : compilation_(compilation), arch_(std::move(arch)), sizes_(sizes), ordinal_(ordinal) {
  const emit::Emitted emitted = emit_kernel_as(compilation_, "default", arch_);
  const runtime::CompiledText compiled = runtime::compile(emitted.text, arch_, compile_options(emitted.manifest));
  spills_allowed_ = spilled_bytes(compiled);
  key_ = tuning_key(emitted, compiled.compiler, ordinal_, problem_of(sizes_), sizes_.seqlens);
  const Built start = build(emitted, arch_, spills_allowed_);
  small_ = std::make_unique<SmallReferences>(*start.kernel, ordinal_);

  Patterns patterns;
  calls_.push_back(std::make_unique<DeviceCall>(emitted.manifest, sizes_, ordinal_, patterns));
  const runtime::DeviceInfo device = runtime::device_info(ordinal_);
  const int64_t wanted = 2 * int64_t{device.l2_bytes}, room = device.memory_bytes / 4,
                each = std::max<int64_t>(1, calls_[0]->bytes());
  const int64_t count = std::min<int64_t>(most_calls, runtime::ceil_divide(std::min(wanted, room), each));
  while (static_cast<int64_t>(calls_.size()) < count)
    calls_.push_back(std::make_unique<DeviceCall>(emitted.manifest, sizes_, ordinal_, patterns));
  Clock::time_point begun = Clock::now();
  whole_ = std::make_unique<Reference>(*start.kernel, *calls_.front(), ordinal_);
  closing_time_ = 2 * (Clock::now() - begun);
  begun = Clock::now();
  milliseconds(start);
  patience_ = patience + 10 * (closing_time_ + (Clock::now() - begun));
}

std::function<Built()> DeviceBench::prepare(const std::string& schedule) {
  emit::Emitted emitted = emit_kernel_as(compilation_, schedule, arch_);
  hashes_[schedule] = emit::hash_text(emitted.text);
  return
      [emitted = std::move(emitted), arch = arch_, allowed = spills_allowed_] { return build(emitted, arch, allowed); };
}

runtime::TunedText DeviceBench::tuned_text(const std::string& schedule) {
  if (!hashes_.count(schedule)) try {
      hashes_[schedule] = emit::hash_text(emit_kernel_as(compilation_, schedule, arch_).text);
    } catch (const UsageError&) {
      hashes_[schedule] = "";  // refused before there is a text
    }
  return {schedule, hashes_[schedule]};
}

std::vector<runtime::TuningEntry> DeviceBench::still_true(std::vector<runtime::TuningEntry> entries) {
  std::erase_if(entries, [&](const auto& entry) { return entry.text != tuned_text(entry.text.schedule); });
  return entries;
}

std::string DeviceBench::difference(const Built& built, bool whole_problem) {
  try {
    return whole_problem ? whole_->difference(*built.kernel) : small_->difference(*built.kernel);
  } catch (const UsageError& error) {
    return error.what();  // more registers or shared memory than the device has
  }
}

double DeviceBench::milliseconds(const Built& built) {
  const runtime::Stream stream(ordinal_);
  const auto call = [&] { calls_[turn_++ % calls_.size()]->launch(*built.kernel, stream.get()); };
  // Once each, so that what a call makes when it is first launched with a kernel is there: workspace, arguments.
  const int unmeasured = std::max(warm_ups, static_cast<int>(calls_.size()));
  const double once =
      std::max(1e-3, runtime::median_of(runtime::time_on_stream(ordinal_, stream.get(), unmeasured, 2, call)));
  const int repetitions =
      static_cast<int>(std::clamp(measured_ms / once, double{fewest_repetitions}, double{most_repetitions}));
  return runtime::median_of(runtime::time_on_stream(ordinal_, stream.get(), 0, repetitions, call));
}

}  // namespace kdagen::tune
