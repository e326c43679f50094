// SPDX-License-Identifier: Apache-2.0
// The schedules that are worth a measurement.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "codegen/backend.h"
#include "runtime/device.h"

namespace kdagen::tune {

/// A point of the space: how far along each of the lists of values it lies, and its name.
struct Candidate {
  std::array<int, 5> at{};  ///< threads, tiles_per_block, min_blocks, heads_fastest, stages
  std::string schedule;     ///< as `schedule=` takes it, every key named
};

/// Steps from one value to the next, over all coordinates.
int distance(const Candidate& a, const Candidate& b);

/// A multiprocessor of the device that is tuned for.
struct Processor {
  int shared_bytes = 0, threads = 0;
};

Processor processor_of(const runtime::DeviceInfo& device);
/// As devices of this architecture have it. UsageError for one that no text can target.
Processor processor_of(const std::string& arch);

/// Why the schedule cannot be the best, by a model of its cost: residency that memory, threads or registers do not
/// allow (a block more than the registers' count is let through: the compiler's report has the last word), and staged
/// operands that keep far too few bytes on their way, or far more than a memory can make use of. Empty if it can.
std::string hopeless(const ScheduleFigures& figures, const Processor& processor);

/// The default first, then by distance from it. What the scheduler refuses or names otherwise is left out.
/// Errors of schedule_figures for the default.
std::vector<Candidate> candidates(Compilation& compilation, const std::string& arch, const Processor& processor);

}  // namespace kdagen::tune
