// SPDX-License-Identifier: Apache-2.0
// A short check of one pass of emitted text, before it is measured.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "tools/check/check.h"

namespace kdagen {

/// Whether the pass gets through `check` on a device at the default check size, in the workload's first regime. `emit`
/// and `given_text`: of CheckRequest.
bool passes_quick_check(const std::string& graph, const CompileOptions& options, Direction direction,
                        std::function<std::unique_ptr<Subject>(Compilation&)> emit, bool given_text = false);

}  // namespace kdagen
