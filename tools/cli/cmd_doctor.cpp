// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/doctor.h"
#include "tools/cli/command.h"

namespace kdagen::cli {
namespace {

int print(bool json) {
  const std::vector<runtime::DoctorCheck> checks = runtime::examine_machine();
  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& check : checks)
      list.push_back(
          {{"name", check.name}, {"ok", check.ok}, {"found", check.found}, {"how_to_get", check.how_to_get}});
    const bool ok = std::all_of(checks.begin(), checks.end(), [](const auto& check) { return check.ok; });
    fmt::print("{}\n", nlohmann::ordered_json{{"ok", ok}, {"checks", list}}.dump(2));
    return 0;
  }
  for (const auto& check : checks) {
    fmt::print("{:<14} {:<8} {}\n", check.name, check.ok ? "ok" : "missing", check.found);
    if (!check.ok) fmt::print("{:<23} to get it: {}\n", "", check.how_to_get);
  }
  return 0;
}
}  // namespace

void add_doctor(CLI::App& app, Action& chosen) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = add_command(app, "doctor", "what this machine has of compilers, driver and devices", chosen,
                                  [json] { return print(*json); });
  command->add_flag("--json", *json, "as JSON");
}

}  // namespace kdagen::cli
