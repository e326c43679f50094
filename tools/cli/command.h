// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: the spec and its options, and how a command is added. One file a subcommand.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "codegen/pipeline.h"

namespace kdagen::cli {

/// SPEC, --set K=V, --pass.
struct SpecArguments {
  std::string spec;
  std::vector<std::string> sets;
  std::string pass;

  /// Adds the arguments to a subcommand; `passes`: fwd|bwd|both or fwd|bwd, with this default.
  void add_to(CLI::App& app, bool with_pass, const std::string& default_pass, bool both);
  /// Option values by name; UsageError for what is not K=V or is given twice.
  std::map<std::string, std::string> values() const;
  /// The spec's graph under its options, and the compiler's options.
  std::string graph(CompileOptions& options) const;
  /// One pass, compiled lazily.
  Compilation compile(Direction direction) const;
  std::vector<Direction> directions() const;
};

/// A subcommand returns its exit code.
using Action = std::function<int()>;
/// Adds a subcommand; `action` runs when it was chosen.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& text, Action& chosen, Action action);

/// All subcommands.
void add_commands(CLI::App& app, Action& chosen);

void add_list(CLI::App& app, Action& chosen);
void add_show(CLI::App& app, Action& chosen);
void add_explain(CLI::App& app, Action& chosen);
void add_emit(CLI::App& app, Action& chosen);
void add_run(CLI::App& app, Action& chosen);
void add_check(CLI::App& app, Action& chosen);
void add_ranges(CLI::App& app, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);
void add_tune(CLI::App& app, Action& chosen);
void add_fuzz(CLI::App& app, Action& chosen);
void add_cache(CLI::App& app, Action& chosen);
void add_doctor(CLI::App& app, Action& chosen);

}  // namespace kdagen::cli
