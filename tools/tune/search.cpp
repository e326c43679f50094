// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/search.h"

#include <algorithm>
#include <deque>
#include <future>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <regex>
#include <utility>

#include "kdagen/error.h"
#include "runtime/benchmarking.h"

namespace kdagen::tune {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr double a_step = 0.03;  // what a step away from a known schedule is expected to cost

/// "spills N bytes", whatever the number.
std::string without_numbers(const std::string& reason) {
  static const std::regex number("\\b[0-9]+\\b");
  return std::regex_replace(reason, number, "N");
}

class Search {
 public:
  Search(const std::vector<Candidate>& candidates, Workbench& workbench, const SearchOptions& options, const Keep& keep,
         const Progress& progress, const Trying& trying)
      : candidates_(candidates),
        workbench_(workbench),
        options_(options),
        keep_(keep),
        progress_(progress),
        trying_(trying),
        states_(candidates.size()) {}

  void remember(const std::vector<runtime::TuningEntry>& known) {
    std::map<std::string, const runtime::TuningEntry*> by_name;
    for (const runtime::TuningEntry& entry : known) {
      const runtime::TuningEntry*& named = by_name[entry.text.schedule];
      if (!named || !entry.rejected.empty()) named = &entry;
    }
    for (size_t i = 0; i < states_.size(); ++i)
      if (auto found = by_name.find(candidates_[i].schedule); found != by_name.end())
        states_[i] = {found->second->ms, i == 0 ? "" : found->second->rejected, true};
  }

  SearchResult run() {
    time_default();
    while (true) {
      while (static_cast<int>(running_.size()) < options_.jobs && has_time_for_another() && begin_next()) {
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
      return runtime::median_of(ms);
    }
  };
  struct Running {
    size_t index;
    std::future<std::pair<Built, Clock::duration>> built;  // and what that took
  };
  struct Finalist {
    size_t index;
    Built built;
    std::vector<double> ms;  // beside the others'
    double median() const { return runtime::median_of(ms); }
  };

  bool has_time_for(Clock::duration work) const { return workbench_.now() + work <= options_.deadline; }

  /// They are compiled side by side, but tried one after another. The end is to come after that.
  bool has_time_for_another() const {
    const auto in_line = static_cast<int64_t>(running_.size()) + 1;
    return has_time_for(slowest_build_ + in_line * slowest_trial_ + for_the_end());
  }

  /// All of it, if that is no more than a quarter of the budget; the fastest's comparison and timing in any case.
  Clock::duration for_the_end() const {
    const Clock::duration all =
        options_.finalists * workbench_.closing_time() + options_.rounds * (options_.finalists + 1) * slowest_trial_;
    const Clock::duration least = workbench_.closing_time() + 2 * slowest_trial_;
    return std::max(least, std::min(all, (options_.deadline - begun_) / 4));
  }

  void time_default() {
    default_ = workbench_.prepare(candidates_.front().schedule)();
    if (!default_.rejected.empty()) throw ToolchainError("the default schedule: " + default_.rejected);
    const Clock::time_point begun = workbench_.now();
    record(0, {workbench_.milliseconds(default_), ""});
    slowest_trial_ = workbench_.now() - begun;
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
    try {
      trying_(candidates_[*index].schedule, compiling_patience);
      const auto timed = [build = workbench_.prepare(candidates_[*index].schedule)] {
        const Clock::time_point begun = Clock::now();
        Built built = build();
        return std::pair(std::move(built), Clock::now() - begun);
      };
      running_.push_back({*index, std::async(std::launch::async, timed)});
    } catch (const UsageError& error) {
      record(*index, {0, error.what()});
    }
    trying_("", {});
    return true;
  }

  void finish_first() {
    Running first = std::move(running_.front());
    running_.pop_front();
    trying_(candidates_[first.index].schedule, compiling_patience);
    const auto [built, duration] = first.built.get();
    slowest_build_ = std::max(slowest_build_, duration);
    const Clock::time_point begun = workbench_.now();
    trying_(candidates_[first.index].schedule, workbench_.patience());
    const Trial trial = trial_of(built);
    trying_("", {});
    record(first.index, trial);
    slowest_trial_ = std::max(slowest_trial_, workbench_.now() - begun);
  }

  Trial trial_of(const Built& built) {
    if (!built.rejected.empty()) return {0, built.rejected};
    try {
      const std::string difference = workbench_.difference(built, false);
      if (!difference.empty()) return {0, difference};
      return {workbench_.milliseconds(built), ""};
    } catch (const runtime::DeviceLost&) {
      throw;  // no other one can be tried either
    } catch (const ToolchainError& error) {
      return {0, error.what()};
    }
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
    SearchResult result{candidates_[best].schedule, states_[best].median(), states_[0].median(), 0, 0};
    for (const State& state : states_) {
      result.rejected += !state.rejected.empty();
      if (!state.rejected.empty()) ++result.reasons[without_numbers(state.rejected)];
      result.tried += !state.rejected.empty() || !state.ms.empty();
    }
    return result;
  }

  /// Only what equals the default on the whole problem in this process may win; a single time may be a lucky one, and
  /// one of another hour of another clock.
  SearchResult closing() {
    std::vector<Finalist> finalists = equal_as_a_whole();
    if (finalists.empty()) return result(0);
    finalists.insert(finalists.begin(), {0, default_, {}});
    for (int round = 0; round < options_.rounds; ++round) {
      if (round > 0 && !has_time_for(static_cast<int64_t>(finalists.size()) * slowest_trial_)) break;
      for (Finalist& finalist : finalists) {
        const std::string& schedule = candidates_[finalist.index].schedule;
        trying_(finalist.index == 0 ? "" : schedule, workbench_.patience());
        finalist.ms.push_back(workbench_.milliseconds(finalist.built));
        trying_("", {});
        record(finalist.index, {finalist.ms.back(), ""});
      }
    }
    const auto best = std::min_element(finalists.begin(), finalists.end(),
                                       [](const Finalist& a, const Finalist& b) { return a.median() < b.median(); });
    SearchResult closed = result(best->index);
    closed.ms = best->median();
    closed.default_ms = finalists.front().median();
    return closed;
  }

  std::vector<Finalist> equal_as_a_whole() {
    std::vector<size_t> order(candidates_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return states_[a].median() < states_[b].median(); });
    std::vector<Finalist> finalists;
    bool first = true;
    for (const size_t index : order) {
      // What is slower than the default is of no use, and of the others the fastest gets its chance in any case.
      if (index == 0 || states_[index].median() == never) break;
      if (static_cast<int>(finalists.size()) >= options_.finalists) break;
      const auto timings = static_cast<int64_t>(finalists.size()) + 2;
      if (!std::exchange(first, false) && !has_time_for(workbench_.closing_time() + timings * slowest_trial_)) break;
      const std::string& schedule = candidates_[index].schedule;
      trying_(schedule, compiling_patience);
      Built built = workbench_.prepare(schedule)();
      trying_(schedule, workbench_.patience());
      const std::string rejected = built.rejected.empty() ? workbench_.difference(built, true) : built.rejected;
      trying_("", {});
      if (rejected.empty())
        finalists.push_back({index, std::move(built), {}});
      else
        record(index, {0, rejected});
    }
    return finalists;
  }

  const std::vector<Candidate>& candidates_;
  Workbench& workbench_;
  const SearchOptions& options_;
  const Keep& keep_;
  const Progress& progress_;
  const Trying& trying_;
  std::vector<State> states_;
  std::deque<Running> running_;
  const Clock::time_point begun_ = workbench_.now();
  Built default_;
  Clock::duration slowest_build_{}, slowest_trial_{};  // of one candidate
};

}  // namespace

SearchResult search(const std::vector<Candidate>& candidates, Workbench& workbench,
                    const std::vector<runtime::TuningEntry>& known, const SearchOptions& options, const Keep& keep,
                    const Progress& progress, const Trying& trying) {
  Search search(candidates, workbench, options, keep, progress, trying);
  search.remember(known);
  return search.run();
}

}  // namespace kdagen::tune
