// SPDX-License-Identifier: Apache-2.0
// The forms in which a spec's consumer can hand over its gradients: what they cost and what they guarantee.
#pragma once
#include <string>

#include "tools/cli/command.h"

namespace kdagen::cli {

/// One line a form that the spec's workload names: its options, the bytes an element that differ between forms, and the
/// largest errors of gradients against those of the whole pipeline. Empty for a spec with one form.
std::string hand_over_table(const SpecArguments& arguments);

}  // namespace kdagen::cli
