// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace kdagen::cli {

/// The text of --source FILE; UsageError when it cannot be read.
std::string read_source(const std::string& path);

}  // namespace kdagen::cli
