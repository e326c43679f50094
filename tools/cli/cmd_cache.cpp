// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "runtime/cache.h"
#include "tools/cli/command.h"

namespace kdagen::cli {

void add_cache(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("cache", "compiled objects on disk");
  command->require_subcommand(1);
  add_command(*command, "list", "every entry, newest first", chosen, [] {
    for (const auto& entry : runtime::Cache::shared().list())
      fmt::print("{}  {:<24} {:<8} {:<20} {:>9} bytes  {:.0f} s old\n", entry.digest, entry.kernel, entry.arch,
                 entry.compiler, entry.bytes, entry.age_seconds);
    return 0;
  });
  add_command(*command, "clear", "remove every entry", chosen, [] {
    fmt::print("{} bytes freed\n", runtime::Cache::shared().clear());
    return 0;
  });
  add_command(*command, "explain", "where the cache is and what its keys are made of", chosen, [] {
    fmt::print("{}", runtime::Cache::shared().explain());
    return 0;
  });
}

}  // namespace kdagen::cli
