// SPDX-License-Identifier: Apache-2.0
#include "tools/check/quick_check.h"

#include <nlohmann/json.hpp>

namespace kdagen {

bool passes_quick_check(const std::string& graph, const CompileOptions& options, Direction direction,
                        std::function<std::unique_ptr<Subject>(Compilation&)> emit, bool given_text) {
  CheckRequest request;
  request.graph = graph;
  request.options = options;
  request.forward = direction == Direction::fwd;
  request.backward = !request.forward;
  request.on = "cuda";
  request.shape = default_check_shape();
  request.regime = find_workload(nlohmann::json::parse(graph).at("name")).regimes().front();
  request.given_text = given_text;
  request.emit = std::move(emit);
  return run_check(request).pass();
}

}  // namespace kdagen
