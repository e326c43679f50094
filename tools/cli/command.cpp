// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/command.h"

#include <fmt/format.h>

#include "kdagen/error.h"
#include "tools/spec_source.h"

namespace kdagen::cli {

void SpecArguments::add_to(CLI::App& app, bool with_pass, const std::string& default_pass, bool both) {
  app.add_option("SPEC", spec, "a shipped spec's name, or the path of a .cpp file")->required();
  app.add_option("--set", sets, "K=V: an option of the spec or of the compiler; may be repeated")
      ->allow_extra_args(false);
  pass = default_pass;
  if (!with_pass) return;
  auto choices = both ? std::vector<std::string>{"fwd", "bwd", "both"} : std::vector<std::string>{"fwd", "bwd"};
  app.add_option("--pass", pass, "which pass")->check(CLI::IsMember(choices))->capture_default_str();
}

std::map<std::string, std::string> SpecArguments::values() const {
  std::map<std::string, std::string> result;
  for (const std::string& item : sets) {
    size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0) throw UsageError(fmt::format("--set {}: expected KEY=VALUE", item));
    if (!result.emplace(item.substr(0, equals), item.substr(equals + 1)).second)
      throw UsageError(fmt::format("--set {}: this option is set twice", item.substr(0, equals)));
  }
  return result;
}

std::string SpecArguments::graph(CompileOptions& options) const {
  auto given = values();
  options = take_compile_options(given);
  return graph_bytes(spec, given);
}

Compilation SpecArguments::compile(Direction direction) const {
  CompileOptions options;
  std::string bytes = graph(options);
  return Compilation(std::move(bytes), direction, std::move(options));
}

std::vector<Direction> SpecArguments::directions() const {
  if (pass == "both") return {Direction::fwd, Direction::bwd};
  return {pass == "fwd" ? Direction::fwd : Direction::bwd};
}

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& text, Action& chosen, Action action) {
  CLI::App* command = app.add_subcommand(name, text);
  command->callback([&chosen, action = std::move(action)] { chosen = action; });
  return command;
}

void add_commands(CLI::App& app, Action& chosen) {
  for (auto add : {add_list, add_show, add_explain, add_emit, add_run, add_check, add_ranges, add_bench, add_tune,
                   add_fuzz, add_cache, add_doctor})
    add(app, chosen);
}

}  // namespace kdagen::cli
