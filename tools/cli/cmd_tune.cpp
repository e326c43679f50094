// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kdagen/error.h"
#include "tools/check/quick_check.h"
#include "tools/cli/command.h"
#include "tools/cli/size_arguments.h"
#include "tools/tune/retime.h"
#include "tools/tune/tune.h"

namespace kdagen::cli {
namespace {

constexpr int device_ordinal = 0;
constexpr double longest_budget_ms = 3.6e9;
using tune::Clock;

struct Arguments {
  SpecArguments spec;
  std::string on, arch;
  SizeArguments size;
  double budget_ms = 60e3;
  int retime = 0;
  bool list = false, json = false;
};

/// What the others are compared with has to be right itself.
void check_default(const Arguments& arguments, Direction direction, const std::string& arch) {
  CompileOptions options;
  const std::string graph = arguments.spec.graph(options);
  const bool passes = passes_quick_check(graph, options, direction, [&](Compilation& compilation) {
    emit::Emitted emitted = emit_kernel(compilation, arch);
    return emitted_subject(runtime::make_cuda_kernel(emitted.text, emitted.manifest), device_ordinal);
  });
  if (!passes)
    throw CheckError(
        fmt::format("{} {}: the default schedule does not pass its check on this device, so nothing is tuned; "
                    "kdagen check --on cuda shows where",
                    arguments.spec.spec, direction_name(direction)));
}

/// One line that is written over and over; none unless stderr is a terminal.
tune::Progress progress_bar(Direction direction, Clock::time_point deadline) {
  if (!::isatty(STDERR_FILENO)) return [](const tune::SearchResult&, size_t) {};
  return [=](const tune::SearchResult& so_far, size_t candidates) {
    const double left = std::max(0.0, std::chrono::duration<double>(deadline - Clock::now()).count());
    const size_t filled = 20 * static_cast<size_t>(so_far.tried) / candidates;
    fmt::print(stderr, "\r\033[K{} [{:<20}] {} of {}, {:.0f} s left, {:.4f} ms: {}", direction_name(direction),
               std::string(filled, '#'), so_far.tried, candidates, left, so_far.ms, so_far.best);
    std::fflush(stderr);
  };
}

Compilation compile(const Arguments& arguments, Direction direction) {
  Compilation compilation = arguments.spec.compile(direction);
  if (compilation.options().schedule != "default")
    throw UsageError(fmt::format("--set schedule={}: tune looks for the schedule itself; leave the option out",
                                 compilation.options().schedule));
  compilation.require_ranges();
  return compilation;
}

/// The driver is used in the processes that try candidates only.
tune::TuneRun tune_pass(const Arguments& arguments, const BenchSizes& sizes, Direction direction,
                        Clock::time_point deadline) {
  tune::TuneRequest request;
  request.sizes = sizes;
  request.ordinal = device_ordinal;
  request.deadline = deadline;
  const auto compilation = [&](bool first_process) {
    Compilation compiled = compile(arguments, direction);
    const std::string arch = runtime::device_info(device_ordinal).arch;
    problem_of(sizes);  // refuses sizes that do not pass before the check takes its time
    if (first_process) check_default(arguments, direction, arch);
    return compiled;
  };
  const tune::TuneRun run = tune::tune_apart(compilation, request, progress_bar(direction, deadline));
  if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K");
  return run;
}

void print(const tune::TuneRun& run) {
  const tune::SearchResult& result = run.result;
  fmt::print("{:<5} {:>9.4f} ms  {}  (default {:.4f} ms, {:+.1f} %; {} tried, {} of them rejected)\n", run.direction,
             result.ms, result.best, result.default_ms, 100 * (result.ms / result.default_ms - 1), result.tried,
             result.rejected);
  for (const auto& [reason, count] : result.reasons) fmt::print("      {} rejected: {}\n", count, reason);
}

nlohmann::ordered_json to_json(const tune::TuneRun& run) {
  const tune::SearchResult& result = run.result;
  return {{"direction", run.direction}, {"best", result.best},         {"ms", result.ms},
          {"tried", result.tried},      {"rejected", result.rejected}, {"default_ms", result.default_ms},
          {"reasons", result.reasons}};
}

/// Whether the choice could be timed again.
bool retime(const Arguments& arguments, const BenchSizes& sizes, Direction direction, const std::string& chosen,
            nlohmann::ordered_json& report) {
  const tune::Retiming all = tune::retime_apart([&] { return compile(arguments, direction); }, sizes, device_ordinal,
                                                chosen, arguments.retime);
  if (!all.failure.empty()) {
    report["retimed"] = nullptr;
    fmt::print(stderr,
               "kdagen: {}: the choice {} cannot be timed again: {}; kdagen tune without --retime chooses anew\n",
               direction_name(direction), chosen, all.failure);
    return false;
  }
  report["retimed"] = {
      {"timed", all.timed}, {"chosen_ms", all.chosen_ms}, {"best_ms", all.best_ms}, {"best", all.best}};
  if (!arguments.json)
    fmt::print("{:<5} of {} schedules, each timed {} times: {:.4f} ms, {:+.1f} % to the fastest, {:.4f} ms  {}\n",
               direction_name(direction), all.timed, arguments.retime, all.chosen_ms, 100 * (all.ratio() - 1),
               all.best_ms, all.best);
  return true;
}

/// The schedules that a search would choose from on a device of the architecture; none is needed.
int list(const Arguments& arguments) {
  const std::string arch = arguments.arch.empty() ? "sm_90" : arguments.arch;
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const Direction direction : arguments.spec.directions()) {
    Compilation compilation = compile(arguments, direction);
    runs.push_back({{"direction", direction_name(direction)}, {"schedules", nlohmann::ordered_json::array()}});
    for (const tune::Candidate& candidate : tune::candidates(compilation, arch, tune::processor_of(arch))) {
      runs.back()["schedules"].push_back(candidate.schedule);
      if (!arguments.json) fmt::print("{:<5} {}\n", direction_name(direction), candidate.schedule);
    }
  }
  if (arguments.json) fmt::print("{}\n", nlohmann::ordered_json{{"spec", arguments.spec.spec}, {"runs", runs}}.dump(2));
  return 0;
}

void check_arguments(const Arguments& arguments) {
  if (!arguments.list && arguments.on.empty())
    throw UsageError("--on is missing: pass --on cuda to tune on a device, or --list to see what would be tried");
  if (!arguments.list && !arguments.arch.empty())
    throw UsageError("--arch: goes with --list; tune takes the architecture of the device");
  if (arguments.list && (!arguments.on.empty() || arguments.retime > 0))
    throw UsageError("--list: takes neither --on nor --retime, since it times nothing; leave them out");
  if (!(arguments.budget_ms > 0 && arguments.budget_ms <= longest_budget_ms))
    throw UsageError("--budget: pass a time above zero and up to 1000h, as in 60s, 2m or 500ms");
}

int run(const Arguments& arguments) {
  const Clock::time_point begun = Clock::now();
  check_arguments(arguments);
  if (arguments.list) return list(arguments);
  const BenchSizes sizes = arguments.size.sizes();
  const std::vector<Direction> directions = arguments.spec.directions();
  std::vector<tune::TuneRun> runs;
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  for (size_t i = 0; i < directions.size(); ++i) {  // each gets an equal share of the time
    const std::chrono::duration<double, std::milli> share(arguments.budget_ms * static_cast<double>(i + 1) /
                                                          static_cast<double>(directions.size()));
    runs.push_back(
        tune_pass(arguments, sizes, directions[i], begun + std::chrono::duration_cast<Clock::duration>(share)));
    report.push_back(to_json(runs.back()));
    if (!arguments.json) print(runs.back());
  }
  bool retimed = true;
  for (size_t i = 0; arguments.retime > 0 && i < directions.size(); ++i)  // outside of the budget
    retimed = retime(arguments, sizes, directions[i], runs[i].result.best, report[i]) && retimed;
  if (arguments.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"spec", arguments.spec.spec}, {"runs", report}}.dump(2));
  return retimed ? 0 : 1;
}
}  // namespace

void add_tune(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      add_command(app, "tune", "find the fastest schedule on a device; --set schedule=tuned then uses it", chosen,
                  [arguments] { return run(*arguments); });
  arguments->spec.add_to(*command, true, "both", true);
  command->add_option("--on", arguments->on, "cuda")->check(CLI::IsMember({"cuda"}));
  command->add_flag("--list", arguments->list, "print the schedules that would be tried, without a device");
  command->add_option("--arch", arguments->arch, "with --list: the architecture (sm_90)");
  arguments->size.add_to(*command);
  command
      ->add_option("--budget", arguments->budget_ms, "time for the search, all passes together: 60s, 2m, 500ms (60s)")
      ->transform(
          CLI::AsNumberWithUnit(std::map<std::string, double>{{"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}},
                                CLI::AsNumberWithUnit::UNIT_REQUIRED));
  command
      ->add_option("--retime", arguments->retime,
                   "afterwards time every schedule of the space N times beside the choice, however long it takes")
      ->type_name("N")
      ->check(CLI::Range(1, 100));
  command->add_flag("--json", arguments->json, "as JSON");
}

}  // namespace kdagen::cli
