// SPDX-License-Identifier: Apache-2.0
// What `kdagen list` says of a spec.
#pragma once
#include <nlohmann/json.hpp>

namespace kdagen::cli {

/// {"name","summary","axes","options","inputs","outputs","params","regimes"} from the graph (docs/architecture.md
/// section 2).
nlohmann::ordered_json spec_summary(const nlohmann::json& graph);

}  // namespace kdagen::cli
