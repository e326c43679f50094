// SPDX-License-Identifier: Apache-2.0
// Candidates are tried in a process of their own: one that faults takes its device context along, and one that never
// ends can only be ended with its process.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/tune/search.h"

namespace kdagen::tune {

/// A candidate that ended the process that tried it.
struct Casualty {
  std::string schedule, reason;
};

/// What the working process tells the one that watches it.
class Report {
 public:
  explicit Report(int file) : file_(file) {}
  /// From now on this candidate is to blame if the process ends, or says nothing for so long. Empty: none is.
  void trying(const std::string& schedule, Clock::duration limit) const;
  void progress(const SearchResult& so_far, size_t candidates) const;
  /// A line; the watching process may be gone, which ends this one.
  void send(const nlohmann::json& message) const;

 private:
  int file_;
};

/// `casualties`: of the earlier processes of this supervision.
using Work = std::function<nlohmann::json(const std::vector<Casualty>& casualties, const Report& report)>;

/// What `work` returns, run in a child process, and again in another one whenever a candidate ends it. The caller must
/// not have used the driver, which cannot be shared with a child. Errors of `work`, and ToolchainError if the process
/// ends while no candidate is tried.
nlohmann::json supervise(const Work& work, const Progress& progress);

nlohmann::json to_json(const SearchResult& result);
SearchResult search_result(const nlohmann::json& json);

}  // namespace kdagen::tune
