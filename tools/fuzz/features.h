// SPDX-License-Identifier: Apache-2.0
// What a random spec exercises besides its expressions, so that a campaign can say what it has covered.
#pragma once
#include <set>
#include <string>

#include "tools/fuzz/sketch.h"

namespace kdagen::fuzz {

/// Ops of its graph ("op cumsum, reverse"), axes and dtypes of its tensors ("param [h, d]", "input bf16"), options that
/// are set ("layout=htd"), and how values are used ("a value used several times", "an output that repeats an input",
/// ...).
std::set<std::string> features_of(const Sketch& sketch);

}  // namespace kdagen::fuzz
