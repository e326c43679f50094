// SPDX-License-Identifier: Apache-2.0
// Finding the fastest of many schedules in a given time.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/kernel.h"
#include "runtime/tuning_store.h"
#include "tools/tune/space.h"

namespace kdagen::tune {

using Clock = std::chrono::steady_clock;

/// A compiled candidate, or why it is not to be used.
struct Built {
  std::shared_ptr<runtime::CudaKernel> kernel;
  std::string rejected;
};

/// What the search asks of a device.
class Workbench {
 public:
  virtual ~Workbench() = default;
  /// Called on the search's thread; what it returns may run on any other, beside others.
  virtual std::function<Built()> prepare(const std::string& schedule) = 0;
  /// Where the results differ from the default's, on small problems or on the one that is tuned for; empty if nowhere.
  virtual std::string difference(const Built& built, bool whole_problem) = 0;
  virtual double milliseconds(const Built& built) = 0;
  virtual Clock::time_point now() const { return Clock::now(); }
  /// What comparing the winner on the whole problem will take.
  virtual Clock::duration closing_time() const { return {}; }
  /// A candidate that takes the device longer than this, compared and timed, is not waited for.
  virtual Clock::duration patience() const { return std::chrono::seconds(10); }
};

/// For a compiler that never ends.
constexpr std::chrono::seconds compiling_patience(180);
/// Told before whatever may fault or never end: which candidate is to blame, and after how long. Empty: none is.
using Trying = std::function<void(const std::string& schedule, Clock::duration limit)>;

struct SearchOptions {
  Clock::time_point deadline;
  int jobs = 1;       ///< candidates that are compiled at once
  int finalists = 3;  ///< that are compared on the whole problem and timed again, in turn and beside the default
  int rounds = 3;     ///< of those timings
};

struct SearchResult {
  std::string best;
  double ms = 0;          ///< median of its timings; at the end, of those that were made beside the default's
  double default_ms = 0;  ///< the default's, likewise
  int tried = 0;          ///< timed or rejected, now or before
  int rejected = 0;
  std::map<std::string, int> reasons = {};  ///< of the rejections, with how many there are; numbers in them are N
};

/// What became of a candidate: a time, or a reason. Called for each as it is known.
struct Trial {
  double ms = 0;
  std::string rejected;
};
using Keep = std::function<void(const std::string& schedule, const Trial& trial)>;
using Progress = std::function<void(const SearchResult& so_far, size_t candidates)>;

/// The first candidate is the default: timed in any case, and what the others have to equal bit for bit. The next is
/// always the one that lies nearest to the fastest known, so that an early end costs little. `known`: of earlier
/// searches; what is in it is not tried again. No candidate is begun that would, going by the slowest so far and by
/// those before it, not be done by the deadline. The best is the default unless another one is faster beside it.
SearchResult search(
    const std::vector<Candidate>& candidates, Workbench& workbench, const std::vector<runtime::TuningEntry>& known,
    const SearchOptions& options, const Keep& keep, const Progress& progress,
    const Trying& trying = [](const std::string&, Clock::duration) {});

}  // namespace kdagen::tune
