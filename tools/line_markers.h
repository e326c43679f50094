// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <string>
#include <string_view>

namespace kdagen {

/// The files that a preprocessed text says were included: names of the markers `# LINE "NAME" 1 ...`, also of
/// those behind a `#line` of the user's.
std::set<std::string> entered_files(std::string_view text);

}  // namespace kdagen
