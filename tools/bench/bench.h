// SPDX-License-Identifier: Apache-2.0
// Measuring an emitted text on a device, and a plain copy beside it.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/bench/call.h"
#include "tools/bench/launch_cost.h"

namespace kdagen {

struct BenchRun {
  std::string direction;
  double ms = 0;         ///< median of the runs, all launches of a call
  int64_t bytes = 0;     ///< of the tensors that the kernel reads and writes, each counted once
  double copy_gbps = 0;  ///< copy_speed() of the same process
  std::string config, text_hash;
  int registers = 0;               ///< of the main entry
  std::optional<int> spill_bytes;  ///< loads and stores, the most of all entries; unknown when the driver finished PTX
  double occupancy = 0;            ///< resident threads of the main entry, of what a multiprocessor can hold
  LaunchCost launch;               ///< of one tile
  std::optional<bool> verified;    ///< whether a check of the same text passed; unknown when none was made

  double gbps() const { return static_cast<double>(bytes) / ms * 1e-6; }
  double roofline_ms() const { return static_cast<double>(bytes) / copy_gbps * 1e-6; }
};

/// Stored and loaded for lack of registers, by the entry that does most of it; unknown if one's report is.
std::optional<int> most_spilled_bytes(const std::vector<runtime::EntryReport>& reports);

/// GB/s, bytes read and bytes written, of copying 1 GiB (at most an eighth of the memory) from device memory to device
/// memory: the median of 20.
double copy_speed(int device_ordinal);

/// Times the kernel on random inputs and fills in everything but copy_gbps, config and verified.
/// UsageError for sizes that do not pass, ToolchainError without a device or enough memory.
BenchRun time_kernel(runtime::CudaKernel& kernel, const BenchSizes& sizes, int device_ordinal);

/// A run with the JSON keys of `kdagen bench`; what is not known is null.
nlohmann::ordered_json to_json(const BenchRun& run);
/// Columns for people, with a heading.
std::string to_text(const std::vector<BenchRun>& runs);

}  // namespace kdagen
