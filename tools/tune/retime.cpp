// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/retime.h"

#include <algorithm>
#include <deque>
#include <future>
#include <map>
#include <thread>

#include "kdagen/error.h"
#include "runtime/benchmarking.h"
#include "runtime/tuning_store.h"
#include "tools/tune/device_bench.h"
#include "tools/tune/worker.h"

namespace kdagen::tune {
namespace {

struct Timed {
  std::string schedule;
  Built built;
  std::vector<double> ms;
  double median() const { return runtime::median_of(ms); }
};

class Retimer {
 public:
  Retimer(Compilation& compilation, const BenchSizes& sizes, int ordinal, const std::vector<Casualty>& casualties,
          const Report& report, size_t most_candidates)
      : device_(runtime::device_info(ordinal)), bench_(compilation, device_.arch, sizes, ordinal), report_(report) {
    const runtime::TuningStore store = store_of(device_, emit_kernel_as(compilation, "default", device_.arch).manifest);
    for (const Casualty& casualty : casualties) {
      const runtime::TunedText text = bench_.tuned_text(casualty.schedule);
      store.reject(bench_.key(), text, casualty.reason);
      rejected_[casualty.schedule] = casualty.reason;
    }
    for (const runtime::TuningEntry& entry : bench_.still_true(store.entries(bench_.key())))
      if (!entry.rejected.empty()) rejected_[entry.text.schedule] = entry.rejected;
    std::vector<Candidate> all = candidates(compilation, device_.arch, processor_of(device_));
    if (all.size() > most_candidates) all.resize(most_candidates);
    build(all);
  }

  Retiming retime(const std::string& chosen, int rounds) {
    for (int round = 0; round < rounds; ++round)
      for (Timed& timed : all_) {
        report_.trying(timed.schedule, bench_.patience());
        timed.ms.push_back(bench_.milliseconds(timed.built));
      }
    report_.trying("", {});
    const auto best = std::min_element(all_.begin(), all_.end(),
                                       [](const Timed& a, const Timed& b) { return a.median() < b.median(); });
    const auto own =
        std::find_if(all_.begin(), all_.end(), [&](const Timed& timed) { return timed.schedule == chosen; });
    Retiming result;
    result.timed = static_cast<int>(all_.size());
    if (own == all_.end()) {
      const auto why = rejected_.find(chosen);
      result.failure = why == rejected_.end() ? "it is no candidate" : why->second;
      return result;
    }
    result.best = best->schedule;
    result.best_ms = best->median();
    result.chosen_ms = own->median();
    return result;
  }

 private:
  using Running = std::pair<std::string, std::future<Built>>;

  /// In the candidates' order, as many at a time as there are processors.
  void build(const std::vector<Candidate>& candidates) {
    const size_t jobs = std::max(1U, std::thread::hardware_concurrency());
    std::deque<Running> running;
    for (const Candidate& candidate : candidates) {
      if (rejected_.count(candidate.schedule)) continue;
      if (running.size() == jobs) finish_first(running);
      try {
        running.emplace_back(candidate.schedule, std::async(std::launch::async, bench_.prepare(candidate.schedule)));
      } catch (const UsageError& error) {
        rejected_[candidate.schedule] = error.what();
      }
    }
    while (!running.empty()) finish_first(running);
  }

  void finish_first(std::deque<Running>& running) {
    Running first = std::move(running.front());
    running.pop_front();
    report_.trying(first.first, compiling_patience);
    Timed timed{first.first, first.second.get(), {}};
    report_.trying(first.first, bench_.patience());
    std::string reason = timed.built.rejected;
    if (reason.empty()) reason = bench_.difference(timed.built, false);
    report_.trying("", {});
    if (reason.empty())
      all_.push_back(std::move(timed));
    else
      rejected_[first.first] = reason;
  }

  runtime::DeviceInfo device_;
  DeviceBench bench_;
  const Report& report_;
  std::map<std::string, std::string> rejected_;  // reasons by schedule
  std::vector<Timed> all_;
};

}  // namespace

Retiming retime_apart(const std::function<Compilation()>& compilation, const BenchSizes& sizes, int ordinal,
                      const std::string& chosen, int rounds, size_t most_candidates) {
  const nlohmann::json json = supervise(
      [&](const std::vector<Casualty>& casualties, const Report& report) -> nlohmann::json {
        Compilation own = compilation();
        const Retiming result =
            Retimer(own, sizes, ordinal, casualties, report, most_candidates).retime(chosen, rounds);
        return {{"best", result.best},
                {"best_ms", result.best_ms},
                {"chosen_ms", result.chosen_ms},
                {"timed", result.timed},
                {"failure", result.failure}};
      },
      [](const SearchResult&, size_t) {});
  return {json.at("best"), json.at("best_ms"), json.at("chosen_ms"), json.at("timed"), json.at("failure")};
}

}  // namespace kdagen::tune
