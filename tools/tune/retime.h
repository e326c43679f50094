// SPDX-License-Identifier: Apache-2.0
// How good was the choice? Every schedule of the space, timed again beside it in one process.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "codegen/backend.h"
#include "tools/bench/call.h"

namespace kdagen::tune {

struct Retiming {
  std::string best;                   ///< the fastest of all
  double best_ms = 0, chosen_ms = 0;  ///< medians of the rounds
  int timed = 0;
  std::string failure;  ///< why the choice could not be timed again; then there are no times
  double ratio() const { return chosen_ms / best_ms; }
};

/// Builds every candidate that passes the tuner's rules and the comparison on small problems, and times all of them in
/// turn, `rounds` times, on inputs that do not fit into the L2 cache; without what the tuning store rejects. In a
/// process of its own, as tune_apart. Errors of DeviceBench.
Retiming retime_apart(const std::function<Compilation()>& compilation, const BenchSizes& sizes, int ordinal,
                      const std::string& chosen, int rounds, size_t most_candidates = SIZE_MAX);

}  // namespace kdagen::tune
