// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tools/cli/command.h"
#include "tools/fuzz/fuzz.h"

namespace kdagen::cli {
namespace {

int run(fuzz::FuzzRequest request, bool json) {
  if (::isatty(STDERR_FILENO))
    request.progress = [](int64_t done, int64_t failed) { fmt::print(stderr, "\r{} specs, {} failed ", done, failed); };
  const fuzz::FuzzReport report = fuzz::run_fuzz(request);
  if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K");
  if (json) fmt::print("{}\n", to_json(report).dump(2));
  else fmt::print("{}", to_text(report));
  return report.failures.empty() ? 0 : 1;
}

}  // namespace

void add_fuzz(CLI::App& app, Action& chosen) {
  auto request = std::make_shared<fuzz::FuzzRequest>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = add_command(app, "fuzz", "check random specs, and print the smallest that fails", chosen, [=] { return run(*request, *json); });
  command->add_option("--on", request->on, "cpu (the evaluator), emulator or cuda (the emitted text as well)")
      ->check(CLI::IsMember({"cpu", "emulator", "cuda"}))->capture_default_str();
  command->add_option("--seed", request->seed, "of the first spec; the same seed draws the same specs")->capture_default_str();
  command->add_option("--count", request->count, "specs")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_option("--seconds", request->seconds, "end after this time, whatever the count")->check(CLI::PositiveNumber);
  command->add_option("--replay", request->replay, "the one spec of this seed, as a report of a failure names it");
  command->add_flag("--json", *json, "as JSON");
}

}  // namespace kdagen::cli
