// SPDX-License-Identifier: Apache-2.0
#include "tools/spec_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kdagen/registry.h"
#include "tools/plugin.h"

namespace kdagen {
namespace {

/// Linked specs by name. Objects that are linked twice register twice, which is harmless.
std::map<std::string, RegisteredSpec> specs_by_name() {
  std::map<std::string, RegisteredSpec> specs;
  for (const RegisteredSpec& spec : registered_specs()) {
    const auto [known, added] = specs.emplace(spec.name, spec);
    if (!added && known->second.file != spec.file)
      throw KdagenBug("two specs are called " + spec.name + ": " + known->second.file + " and " + spec.file);
  }
  return specs;
}

[[noreturn]] void refuse_name(const std::string& name, const std::map<std::string, RegisteredSpec>& specs) {
  std::vector<std::string> names;
  for (const auto& [known, spec] : specs) names.push_back(known);
  throw UsageError("there is no spec \"" + name + "\"" + text::did_you_mean(name, names) + "; pass " +
                   (names.empty() ? "" : "one of " + text::join(names, ", ") + ", or ") + "the path of a .cpp file");
}

}  // namespace

std::vector<SpecInfo> shipped_specs() {
  std::vector<SpecInfo> infos;
  for (const auto& [name, spec] : specs_by_name()) {
    SpecInfo info{name, "", spec.file, spec_graph(spec, Options())};
    info.summary = nlohmann::json::parse(info.graph).at("summary");
    infos.push_back(std::move(info));
  }
  return infos;
}

std::string graph_bytes(const std::string& spec_name_or_path, const std::map<std::string, std::string>& options) {
  const auto specs = specs_by_name();
  if (const auto found = specs.find(spec_name_or_path); found != specs.end())
    return spec_graph(found->second, Options(options));
  if (spec_name_or_path.find_first_of("/.") == std::string::npos) refuse_name(spec_name_or_path, specs);
  return plugin_graph(spec_name_or_path, options);
}

}  // namespace kdagen
