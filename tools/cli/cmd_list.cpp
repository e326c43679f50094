// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/cli/command.h"
#include "tools/cli/spec_summary.h"
#include "tools/spec_source.h"

namespace kdagen::cli {

void add_list(CLI::App& app, Action& chosen) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = add_command(app, "list", "the shipped specs, their options and tensors", chosen, [json] {
    nlohmann::ordered_json specs = nlohmann::ordered_json::array();
    for (const SpecInfo& info : shipped_specs()) specs.push_back(spec_summary(nlohmann::json::parse(info.graph)));
    if (*json) {
      fmt::print("{}\n", nlohmann::ordered_json{{"specs", specs}}.dump(2));
      return 0;
    }
    for (const auto& spec : specs) {
      fmt::print("{:<12} {}\n", spec["name"].get<std::string>(), spec["summary"].get<std::string>());
      for (const auto& [name, option] : spec["options"].items()) {
        std::string choices;
        if (option.contains("choices")) choices = " of " + option["choices"].dump();
        if (option.contains("range")) choices = " in " + option["range"].dump();
        fmt::print("    {} = {}{}\n", name, option["default"].dump(), choices);
      }
    }
    return 0;
  });
  command->add_flag("--json", *json, "as JSON");
}

}  // namespace kdagen::cli
