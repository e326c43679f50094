// SPDX-License-Identifier: Apache-2.0
// The engine of `kdagen tune`, and of `schedule=tuned`.
#pragma once
#include <optional>
#include <string>

#include "codegen/backend.h"
#include "tools/bench/call.h"
#include "tools/tune/search.h"

namespace kdagen::tune {

struct TuneRun {
  std::string direction;
  SearchResult result;
};

/// Searches the pass's schedules on the device until the deadline, or until all are tried. Timings go to the tuning
/// store as they are made, and those of earlier searches are taken from there. Errors of DeviceBench.
TuneRun tune(Compilation& compilation, const BenchSizes& sizes, int ordinal, Clock::time_point deadline,
             const Progress& progress);

/// The schedule to emit a pass with: the compilation's own option, except that `tuned` becomes the fastest one that the
/// tuning store has for the device, the nearest size (of `problem`, else as `bench` has it), and these options, after
/// its results were compared with the default's. `default` and a note on stderr when there is none: no device of
/// `arch`, nothing stored, nothing that passes.
std::string schedule_for(Compilation& compilation, const std::string& arch,
                         const std::optional<runtime::Problem>& problem = {});

/// emit_kernel with that schedule.
emit::Emitted emit_tuned(Compilation& compilation, const std::string& arch,
                         const std::optional<runtime::Problem>& problem = {}, bool force = false);

}  // namespace kdagen::tune
