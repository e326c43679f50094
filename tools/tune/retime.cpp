// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/retime.h"

#include <algorithm>
#include <deque>
#include <future>
#include <thread>

#include "runtime/tuning_store.h"
#include "tools/tune/device_bench.h"

namespace kdagen::tune {
namespace {

struct Timed {
  std::string schedule;
  Built built;
  std::vector<double> ms;
  double median() const { return runtime::TuningEntry{"", ms, ""}.median(); }
};

/// In the candidates' order, as many at a time as there are processors.
std::vector<Timed> build_all(const std::vector<Candidate>& candidates, DeviceBench& bench) {
  const size_t jobs = std::max(1U, std::thread::hardware_concurrency());
  std::deque<std::pair<std::string, std::future<Built>>> running;
  std::vector<Timed> built;
  const auto finish_first = [&] {
    built.push_back({running.front().first, running.front().second.get(), {}});
    running.pop_front();
    Timed& last = built.back();
    if (last.built.rejected.empty()) last.built.rejected = bench.difference(last.built, false);
    if (!last.built.rejected.empty()) built.pop_back();
  };
  for (const Candidate& candidate : candidates) {
    if (running.size() == jobs) finish_first();
    running.emplace_back(candidate.schedule, std::async(std::launch::async, bench.prepare(candidate.schedule)));
  }
  while (!running.empty()) finish_first();
  return built;
}

}  // namespace

Retiming retime_all(Compilation& compilation, const BenchSizes& sizes, int ordinal, const std::string& chosen,
                    int rounds) {
  const runtime::DeviceInfo device = runtime::device_info(ordinal);
  DeviceBench bench(compilation, device.arch, sizes, ordinal);
  std::vector<Timed> all = build_all(
      candidates(compilation, device.arch, {device.shared_bytes_per_multiprocessor, device.threads_per_multiprocessor}),
      bench);
  for (int round = 0; round < rounds; ++round)
    for (Timed& timed : all) timed.ms.push_back(bench.milliseconds(timed.built));
  const auto best =
      std::min_element(all.begin(), all.end(), [](const Timed& a, const Timed& b) { return a.median() < b.median(); });
  const auto own = std::find_if(all.begin(), all.end(), [&](const Timed& timed) { return timed.schedule == chosen; });
  Retiming result;
  result.timed = static_cast<int>(all.size());
  if (best == all.end() || own == all.end()) return result;
  result.best = best->schedule;
  result.best_ms = best->median();
  result.chosen_ms = own->median();
  return result;
}

}  // namespace kdagen::tune
