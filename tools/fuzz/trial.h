// SPDX-License-Identifier: Apache-2.0
// One random spec, tried: float64 derived against finite differences, rewritten against unrewritten, float32 within the
// error analysis, and, where a text is emitted, the text with all of the emulator's checks, or on a device.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "tools/fuzz/sketch.h"

namespace kdagen::fuzz {

struct TrialOptions {
  std::string on = "cpu";  ///< cpu, emulator or cuda
  uint64_t seed = 1;       ///< of the inputs and the schedules
  /// Applied to every emitted text; nothing if empty. For tests: a fault put into a text must be found.
  std::function<std::string(std::string)> edit;
};

struct Outcome {
  enum Kind { passed, refused, undecided, failed } kind = passed;
  std::string reason{};  ///< why it was refused, or what is wrong. Undecided: rounding decides a comparison on which
                         ///< everything depends, so that the error analysis bounds nothing
  std::set<std::string> schedules{};  ///< passed: what its texts were scheduled by, each KEY=VALUE
};

/// Errors of the toolchain pass through.
Outcome try_sketch(const Sketch& sketch, const TrialOptions& options);

}  // namespace kdagen::fuzz
