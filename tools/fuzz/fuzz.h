// SPDX-License-Identifier: Apache-2.0
// The engine of `kdagen fuzz`: random specs one after the other, and the smallest spec that still fails of each that
// does.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tools/fuzz/trial.h"

namespace kdagen::fuzz {

struct FuzzReport;

struct FuzzRequest {
  std::string on = "cpu";  ///< cpu, emulator or cuda
  uint64_t seed = 1;
  int64_t count = 100;                              ///< specs, unless the time is over before
  std::optional<double> seconds;                    ///< none is begun after this, and shrinking ends
  int64_t stop_at_failures = 20;                    ///< enough to look at
  std::optional<uint64_t> replay;                   ///< the one spec of this seed, as a report names it
  std::function<void(const FuzzReport&)> progress;  ///< called after each spec
  std::function<bool()> stop;                       ///< asked before each; the report is of what was done
  std::function<std::string(std::string)> edit;     ///< of TrialOptions
};

struct Failure {
  uint64_t replay = 0;       ///< its seed, for FuzzRequest::replay
  std::string reason;        ///< of the spec as drawn
  std::string small_reason;  ///< of the smaller one
  std::string spec;          ///< the smaller one as C++
  std::string arguments;     ///< of `kdagen check`, for it
};

struct FuzzReport {
  std::string on;
  uint64_t seed = 0;
  int64_t passed = 0, undecided = 0, operations = 0;
  double seconds = 0;
  std::map<std::string, int64_t> refused;   ///< reasons without line numbers
  std::map<std::string, int64_t> forms;     ///< how many specs that passed hold an expression
  std::map<std::string, int64_t> features;  ///< the same of what else specs exercise (features.h)
  std::vector<Failure> failures;

  int64_t specs() const;
};

/// Errors of the toolchain pass through.
FuzzReport run_fuzz(const FuzzRequest& request);

/// {"on","seed","specs","passed","undecided","refused":{reason:count},"operations","forms":{expression:count},
///  "features":{feature:count},"seconds","failures":[{"replay","reason","small_reason","spec","arguments"}]}
nlohmann::ordered_json to_json(const FuzzReport& report);
/// Every failure with its spec, and a last line that sums up.
std::string to_text(const FuzzReport& report);

}  // namespace kdagen::fuzz
