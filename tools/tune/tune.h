// SPDX-License-Identifier: Apache-2.0
// The engine of `kdagen tune`, and of `schedule=tuned`.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "codegen/backend.h"
#include "tools/bench/call.h"
#include "tools/tune/worker.h"

namespace kdagen::tune {

struct TuneRun {
  std::string direction;
  SearchResult result;
};

struct TuneRequest {
  BenchSizes sizes;
  int ordinal = 0;
  Clock::time_point deadline;
  std::chrono::milliseconds patience = std::chrono::seconds(10);  ///< of DeviceBench
  size_t most_candidates = SIZE_MAX;                              ///< the default and those next to it
};

/// Candidates that are compiled at once beside the timing of others: the thread that times keeps a core of its own.
int jobs_beside_timing(unsigned cores);

/// Searches the pass's schedules on the device until the deadline, or until all are tried. Timings go to the tuning
/// store as they are made, and those of earlier searches are taken from there; in the end the choice, which
/// `schedule=tuned` then stands for. `casualties` are rejected first. Errors of DeviceBench; DeviceLost when a
/// candidate faults.
TuneRun tune(Compilation& compilation, const TuneRequest& request, const std::vector<Casualty>& casualties,
             const Report& report);

/// The same in a process of its own, begun anew without what ended it; `compilation` is asked for there. The caller
/// must not have used the driver (supervise).
TuneRun tune_apart(const std::function<Compilation(bool first_process)>& compilation, const TuneRequest& request,
                   const Progress& progress);

/// The schedule to emit a pass with: the compilation's own option, except that `tuned` becomes what `tune` chose last
/// on the device for the nearest size (of `problem`, else as `bench` has it) and these options, after its results were
/// compared with the default's. `lengths`: of packed sequences, where they are known. `default` and a note on stderr
/// when there is none: no device of `arch`, nothing stored, nothing that passes.
std::string schedule_for(Compilation& compilation, const std::string& arch,
                         const std::optional<runtime::Problem>& problem = {}, const std::vector<int64_t>& lengths = {});

/// emit_kernel with that schedule.
emit::Emitted emit_tuned(Compilation& compilation, const std::string& arch,
                         const std::optional<runtime::Problem>& problem = {}, bool force = false);

}  // namespace kdagen::tune
