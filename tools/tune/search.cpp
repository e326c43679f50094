// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/search.h"

#include <algorithm>
#include <deque>
#include <future>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "kdagen/error.h"

namespace kdagen::tune {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr double a_step = 0.03;  // what a step away from a known schedule is expected to cost

class Search {
 public:
  Search(const std::vector<Candidate>& candidates, Workbench& workbench, const SearchOptions& options, const Keep& keep,
         const Progress& progress)
      : candidates_(candidates),
        workbench_(workbench),
        options_(options),
        keep_(keep),
        progress_(progress),
        states_(candidates.size()) {}

  void remember(const std::vector<runtime::TuningEntry>& known) {
    std::map<std::string, const runtime::TuningEntry*> by_name;
    for (const runtime::TuningEntry& entry : known) by_name[entry.schedule] = &entry;
    for (size_t i = 0; i < states_.size(); ++i)
      if (auto found = by_name.find(candidates_[i].schedule); found != by_name.end())
        states_[i] = {found->second->ms, i == 0 ? "" : found->second->rejected, true};
  }

  SearchResult run() {
    time_default();
    while (true) {
      while (static_cast<int>(running_.size()) < options_.jobs && has_time_for(slowest_) && begin_next()) {
      }
      if (running_.empty()) break;
      finish_first();
    }
    return closing();
  }

 private:
  struct State {
    std::vector<double> ms;
    std::string rejected;
    bool seen = false;
    double median() const {
      if (!rejected.empty() || ms.empty()) return never;
      return runtime::TuningEntry{"", ms, ""}.median();
    }
  };
  struct Running {
    size_t index;
    Clock::time_point begun;
    std::future<Built> built;
  };

  bool has_time_for(Clock::duration work) const {
    return workbench_.now() + work + workbench_.closing_time() <= options_.deadline;
  }

  void time_default() {
    const Clock::time_point begun = workbench_.now();
    const Built built = workbench_.prepare(candidates_.front().schedule)();
    if (!built.rejected.empty()) throw ToolchainError("the default schedule: " + built.rejected);
    record(0, {workbench_.milliseconds(built), ""});
    slowest_ = workbench_.now() - begun;
  }

  /// By the fastest known schedule, and how far it is from there.
  std::optional<size_t> next() const {
    std::vector<std::pair<double, size_t>> known;
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (const double ms = states_[i].median(); ms < never) known.emplace_back(ms, i);
    std::optional<size_t> best;
    double best_score = never;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (states_[i].seen) continue;
      double score = never;
      for (const auto& [ms, k] : known)
        if (ms < score) score = std::min(score, ms * (1 + a_step * distance(candidates_[i], candidates_[k])));
      if (score < best_score) best = i, best_score = score;
    }
    return best;
  }

  bool begin_next() {
    const std::optional<size_t> index = next();
    if (!index) return false;
    states_[*index].seen = true;
    const Clock::time_point begun = workbench_.now();
    try {
      running_.push_back(
          {*index, begun, std::async(std::launch::async, workbench_.prepare(candidates_[*index].schedule))});
    } catch (const UsageError& error) {
      record(*index, {0, error.what()});
    }
    return true;
  }

  void finish_first() {
    Running first = std::move(running_.front());
    running_.pop_front();
    record(first.index, trial_of(first.built.get(), false));
    slowest_ = std::max(slowest_, workbench_.now() - first.begun);
  }

  Trial trial_of(const Built& built, bool whole_problem) {
    if (!built.rejected.empty()) return {0, built.rejected};
    const std::string difference = workbench_.difference(built, whole_problem);
    if (!difference.empty()) return {0, difference};
    return {workbench_.milliseconds(built), ""};
  }

  void record(size_t index, const Trial& trial) {
    State& state = states_[index];
    state.seen = true;
    if (trial.rejected.empty())
      state.ms.push_back(trial.ms);
    else
      state.rejected = trial.rejected;
    keep_(candidates_[index].schedule, trial);
    progress_(result(fastest()), candidates_.size());
  }

  size_t fastest() const {
    size_t best = 0;
    for (size_t i = 1; i < states_.size(); ++i)
      if (states_[i].median() < states_[best].median()) best = i;
    return best;
  }

  SearchResult result(size_t best) const {
    SearchResult result{candidates_[best].schedule, states_[best].median(), 0, 0};
    for (const State& state : states_) {
      result.rejected += !state.rejected.empty();
      result.tried += !state.rejected.empty() || !state.ms.empty();
    }
    return result;
  }

  /// Only what equals the default on the whole problem in this process may win; a single time may be a lucky one.
  SearchResult closing() {
    std::vector<size_t> order(candidates_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return states_[a].median() < states_[b].median(); });
    std::vector<size_t> accepted;
    for (const size_t index : order) {
      const bool enough = static_cast<int>(accepted.size()) >= options_.finalists;
      if (states_[index].median() == never || enough || (!accepted.empty() && !has_time_for({}))) break;
      if (index != 0) record(index, trial_of(workbench_.prepare(candidates_[index].schedule)(), true));
      if (states_[index].rejected.empty()) accepted.push_back(index);
    }
    if (accepted.empty()) accepted.push_back(0);
    return result(*std::min_element(accepted.begin(), accepted.end(),
                                    [&](size_t a, size_t b) { return states_[a].median() < states_[b].median(); }));
  }

  const std::vector<Candidate>& candidates_;
  Workbench& workbench_;
  const SearchOptions& options_;
  const Keep& keep_;
  const Progress& progress_;
  std::vector<State> states_;
  std::deque<Running> running_;
  Clock::duration slowest_{};
};

}  // namespace

SearchResult search(const std::vector<Candidate>& candidates, Workbench& workbench,
                    const std::vector<runtime::TuningEntry>& known, const SearchOptions& options, const Keep& keep,
                    const Progress& progress) {
  Search search(candidates, workbench, options, keep, progress);
  search.remember(known);
  return search.run();
}

}  // namespace kdagen::tune
