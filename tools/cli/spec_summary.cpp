// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/spec_summary.h"

#include "specs/workloads/workload.h"

namespace kdagen::cli {

nlohmann::ordered_json spec_summary(const nlohmann::json& graph) {
  nlohmann::ordered_json spec;
  spec["name"] = graph["name"];
  spec["summary"] = graph.value("summary", "");
  spec["axes"] = nlohmann::ordered_json::array();
  for (const auto& axis : graph["axes"]) spec["axes"].push_back(axis["name"].get<std::string>());
  spec["options"] = nlohmann::ordered_json::object();
  for (const auto& option : graph.value("options", nlohmann::json::array())) {
    nlohmann::ordered_json entry = {{"default", option.value("default", nlohmann::json())}};
    if (option.contains("choices"))
      entry["choices"] = option["choices"];
    else if (option.contains("min") || option.contains("max"))
      entry["range"] = {option.value("min", nlohmann::json()), option.value("max", nlohmann::json())};
    spec["options"][option["name"].get<std::string>()] = entry;
  }
  spec["inputs"] = spec["outputs"] = spec["params"] = nlohmann::ordered_json::array();
  for (const auto& node : graph["nodes"]) {
    std::string op = node["op"];
    if (op != "input" && op != "param") continue;
    spec[op == "input" ? "inputs" : "params"].push_back({{"name", node["name"]},
                                                         {"dtype", node["dtype"]},
                                                         {"axes", node["axes"]},
                                                         {"optional", node.value("optional", false)}});
  }
  for (const auto& output : graph["outputs"])
    spec["outputs"].push_back({{"name", output["name"]},
                               {"dtype", output["dtype"]},
                               {"axes", graph["nodes"][output["node"].get<size_t>()]["axes"]}});
  spec["regimes"] = find_workload(graph["name"].get<std::string>()).regimes();
  return spec;
}

}  // namespace kdagen::cli
