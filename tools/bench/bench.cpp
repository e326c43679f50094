// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/benchmarking.h"

namespace kdagen {
namespace {

constexpr int warm_ups = 10, repetitions = 50;

void describe_entry(runtime::CudaKernel& kernel, int ordinal, BenchRun& run) {
  const std::vector<runtime::EntryReport> reports = kernel.report(ordinal);
  run.spill_bytes = most_spilled_bytes(reports);
  const auto& launches = kernel.manifest().launches;
  const auto launch = std::find_if(launches.begin(), launches.end(),
                                   [&](const auto& info) { return info.entry == kernel.manifest().kernel; });
  if (launch == launches.end()) return;
  for (const runtime::EntryReport& report : reports) {
    if (report.entry != launch->entry) continue;
    run.registers = report.attributes.registers;
    const int held = runtime::device_info(ordinal).threads_per_multiprocessor;
    if (held > 0)
      run.occupancy = static_cast<double>(report.attributes.blocks_per_multiprocessor) * launch->block / held;
  }
}

}  // namespace

std::optional<int> most_spilled_bytes(const std::vector<runtime::EntryReport>& reports) {
  std::optional<int> most;
  for (const runtime::EntryReport& report : reports) {
    if (report.resources.entry.empty()) return {};  // the driver finished it
    most = std::max(most.value_or(0), report.resources.spilled_bytes());
  }
  return most;
}

double copy_speed(int device_ordinal) {
  const int64_t bytes = std::min(int64_t{1} << 30, runtime::device_info(device_ordinal).memory_bytes / 8);
  runtime::DeviceBuffer from(device_ordinal, bytes), to(device_ordinal, bytes);
  from.fill(0);
  const runtime::Stream stream(device_ordinal);
  const auto copy = [&] {
    const runtime::ContextScope scope(device_ordinal);
    runtime::check_driver(
        runtime::driver().MemcpyDtoDAsync(reinterpret_cast<runtime::CudaPointer>(to.data()),
                                          reinterpret_cast<runtime::CudaPointer>(from.data()), bytes, stream.get()),
        "copy device memory");
  };
  const double ms = runtime::median_of(runtime::time_on_stream(device_ordinal, stream.get(), 3, 20, copy));
  return 2.0 * static_cast<double>(bytes) / ms * 1e-6;
}

BenchRun time_kernel(runtime::CudaKernel& kernel, const BenchSizes& sizes, int device_ordinal) {
  Patterns patterns;
  DeviceCall call(kernel.manifest(), sizes, device_ordinal, patterns);
  const runtime::Stream stream(device_ordinal);
  BenchRun run;
  run.direction = kernel.manifest().pass;
  run.bytes = call.bytes();
  run.text_hash = kernel.manifest().text_hash;
  run.ms = runtime::median_of(runtime::time_on_stream(device_ordinal, stream.get(), warm_ups, repetitions,
                                                      [&] { call.launch(kernel, stream.get()); }));
  stream.synchronize();
  describe_entry(kernel, device_ordinal, run);
  run.launch = launch_cost(kernel, device_ordinal);
  return run;
}

nlohmann::ordered_json to_json(const BenchRun& run) {
  const auto known = [](const auto& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  return {{"direction", run.direction},
          {"ms", run.ms},
          {"bytes", run.bytes},
          {"gbps", run.gbps()},
          {"copy_gbps", run.copy_gbps},
          {"fraction_of_copy", run.gbps() / run.copy_gbps},
          {"config", run.config},
          {"text_hash", run.text_hash},
          {"registers", run.registers},
          {"spill_bytes", known(run.spill_bytes)},
          {"occupancy", run.occupancy},
          {"roofline_ms", run.roofline_ms()},
          {"launches", run.launch.launches},
          {"call_us", run.launch.call_us},
          {"fresh_call_us", run.launch.fresh_us},
          {"plain_launches_us", run.launch.plain_us},
          {"load_ms", run.launch.load_ms},
          {"verified", known(run.verified)}};
}

std::string to_text(const std::vector<BenchRun>& runs) {
  std::string text =
      fmt::format("{:<5} {:>9} {:>9} {:>8} {:>6} {:>9} {:>9} {:>9} {:>12} {:>8}  {}\n", "pass", "ms", "floor", "GB/s",
                  "copy", "registers", "spilled", "occupancy", "call", "fresh", "schedule");
  for (const BenchRun& run : runs)
    text += fmt::format(
        "{:<5} {:>9.4f} {:>9.4f} {:>8.0f} {:>5.1f}% {:>9} {:>9} {:>8.0f}% {:>4.1f}+{:.1f} us {:>5.1f} us  {}{}\n",
        run.direction, run.ms, run.roofline_ms(), run.gbps(), 100 * run.gbps() / run.copy_gbps, run.registers,
        run.spill_bytes ? std::to_string(*run.spill_bytes) : "?", 100 * run.occupancy, run.launch.plain_us,
        run.launch.overhead_us(), run.launch.fresh_us, run.config,
        run.verified && !*run.verified ? "  CHECK FAILED" : "");
  return text;
}

}  // namespace kdagen
