// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "tools/cli/command.h"
#include "tools/fuzz/fuzz.h"

namespace kdagen::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

/// A line a failure; a count on terminals.
void show_progress(const fuzz::FuzzReport& report, size_t& known) {
  for (; known < report.failures.size(); ++known)
    fmt::print(stderr, "seed {} fails: {}\n", report.failures[known].replay, report.failures[known].reason);
  if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\r{} specs, {} failed ", report.specs(), known);
}

int run(fuzz::FuzzRequest request, bool json) {
  size_t known = 0;
  request.progress = [&](const fuzz::FuzzReport& report) { show_progress(report, known); };
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { interrupted = 1; });
  request.stop = [] { return interrupted != 0; };
  const fuzz::FuzzReport report = fuzz::run_fuzz(request);
  if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K");
  if (json)
    fmt::print("{}\n", to_json(report).dump(2));
  else
    fmt::print("{}", to_text(report));
  return report.failures.empty() ? 0 : 1;
}

}  // namespace

void add_fuzz(CLI::App& app, Action& chosen) {
  auto request = std::make_shared<fuzz::FuzzRequest>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = add_command(app, "fuzz", "check random specs, and print the smallest that fails", chosen,
                                  [=] { return run(*request, *json); });
  command->add_option("--on", request->on, "cpu (the evaluator), emulator or cuda (the emitted text as well)")
      ->check(CLI::IsMember({"cpu", "emulator", "cuda"}))
      ->capture_default_str();
  command->add_option("--seed", request->seed, "of the first spec; the same seed draws the same specs")
      ->capture_default_str();
  command->add_option("--count", request->count, "specs")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_option("--seconds", request->seconds, "end after this time, whatever the count")
      ->check(CLI::PositiveNumber);
  command->add_option("--replay", request->replay, "the one spec of this seed, as a report of a failure names it");
  command->add_flag("--json", *json, "as JSON");
}

}  // namespace kdagen::cli
