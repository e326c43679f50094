// SPDX-License-Identifier: Apache-2.0
#include "tools/fuzz/fuzz.h"

#include <chrono>
#include <regex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/fuzz/features.h"
#include "tools/fuzz/recipe.h"

namespace kdagen::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

/// Seeds of neighbouring specs have nothing in common (the finaliser of SplitMix64).
uint64_t seed_of(uint64_t seed, int64_t number) {
  uint64_t z = seed * 0x9e3779b97f4a7c15u + uint64_t(number) + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Reasons are counted by their wording: names and numbers differ from spec to spec.
std::string wording(const std::string& reason) {
  static const std::regex place("^[^ ]*:[0-9]+: "), name("\\b[vxrpy][0-9]+\\b"),
      number("-?\\b[0-9]+(\\.[0-9]+)?(e[-+]?[0-9]+)?\\b");
  return std::regex_replace(std::regex_replace(std::regex_replace(reason, place, ""), name, "NAME"), number, "N");
}

constexpr double longest_shrinking = 60;  // seconds

/// What stays the same while a failing spec is made smaller: the comparison that fails first, or an error's wording.
std::string kind_of(const std::string& reason) {
  const std::string first = reason.substr(0, reason.find('\n'));
  return wording(first.substr(0, first.find(", some rows")));
}

class Fuzzer {
 public:
  explicit Fuzzer(const FuzzRequest& request) : request_(request), begun_(Clock::now()) {
    report_.on = request.on;
    report_.seed = request.seed;
  }

  FuzzReport run() {
    if (request_.replay) {
      try_seed(*request_.replay);
    } else {
      for (int64_t i = 0;
           i < request_.count && !is_over() && int64_t(report_.failures.size()) < request_.stop_at_failures; ++i) {
        try_seed(seed_of(request_.seed, i));
        if (request_.progress) request_.progress(report_);
      }
    }
    report_.seconds = elapsed();
    return std::move(report_);
  }

 private:
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }
  bool is_over() const {
    return (request_.seconds && elapsed() >= *request_.seconds) || (request_.stop && request_.stop());
  }

  Outcome outcome(const Sketch& sketch, uint64_t seed) const {
    return try_sketch(sketch, {request_.on, seed, request_.edit});
  }

  void try_seed(uint64_t seed) {
    const rc::Shrinkable<Recipe> drawn = recipe_of(seed);
    const Sketch sketch = sketch_of(drawn.value());
    const Outcome found = outcome(sketch, seed);
    if (found.kind == Outcome::refused) ++report_.refused[wording(found.reason)];
    if (found.kind == Outcome::undecided) ++report_.undecided;
    if (found.kind == Outcome::passed) count_passed(sketch, found.schedules);
    if (found.kind == Outcome::failed) report_.failures.push_back(shrunk(drawn, found, seed));
  }

  void count_passed(const Sketch& sketch, const std::set<std::string>& schedules) {
    ++report_.passed;
    report_.operations += int64_t(sketch.values.size());
    std::map<int, bool> seen;
    for (const ValueLine& line : sketch.values) seen[line.form] = true;
    for (const auto& [form, _] : seen) ++report_.forms[std::string(forms()[form].text)];
    for (const std::string& feature : features_of(sketch)) ++report_.features[feature];
    for (const std::string& schedule : schedules) ++report_.features["schedule " + schedule];
  }

  Failure shrunk(const rc::Shrinkable<Recipe>& drawn, const Outcome& found, uint64_t seed) const {
    const double until = elapsed() + longest_shrinking;
    const Recipe small = rc::shrinkable::findLocalMin(drawn, [&](const Recipe& recipe) {
                           if (is_over() || elapsed() > until) return false;
                           const Outcome smaller = outcome(sketch_of(recipe), seed);
                           return smaller.kind == Outcome::failed && kind_of(smaller.reason) == kind_of(found.reason);
                         }).first;
    const Sketch sketch = sketch_of(small);
    return {seed, found.reason, outcome(sketch, seed).reason, sketch.cpp(seed, request_.on),
            sketch.check_arguments(seed, request_.on)};
  }

  const FuzzRequest& request_;
  Clock::time_point begun_;
  FuzzReport report_;
};

}  // namespace

int64_t FuzzReport::specs() const {
  int64_t count = passed + undecided + int64_t(failures.size());
  for (const auto& [reason, number] : refused) count += number;
  return count;
}

FuzzReport run_fuzz(const FuzzRequest& request) { return Fuzzer(request).run(); }

nlohmann::ordered_json to_json(const FuzzReport& report) {
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  for (const Failure& failure : report.failures)
    failures.push_back({{"replay", failure.replay},
                        {"reason", failure.reason},
                        {"small_reason", failure.small_reason},
                        {"spec", failure.spec},
                        {"arguments", failure.arguments}});
  return {{"on", report.on},
          {"seed", report.seed},
          {"specs", report.specs()},
          {"passed", report.passed},
          {"undecided", report.undecided},
          {"refused", report.refused},
          {"operations", report.operations},
          {"forms", report.forms},
          {"features", report.features},
          {"seconds", report.seconds},
          {"failures", failures}};
}

std::string to_text(const FuzzReport& report) {
  std::string text;
  for (const Failure& failure : report.failures)
    text += fmt::format("seed {} fails:\n{}\nsmallest spec that fails ({}):\n{}\n", failure.replay, failure.reason,
                        failure.small_reason, failure.spec);
  int64_t refused = 0;
  for (const auto& [reason, count] : report.refused) {
    text += fmt::format("refused {:>6} {}\n", count, reason);
    refused += count;
  }
  return text +
         fmt::format(
             "fuzz on {}, seed {}: {} specs of {} operations, {} passed, {} refused, {} undecided, {} failed, {:.0f} s\n",
             report.on, report.seed, report.specs(), report.operations, report.passed, refused, report.undecided,
             report.failures.size(), report.seconds);
}

}  // namespace kdagen::fuzz
