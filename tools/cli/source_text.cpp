// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/source_text.h"

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/files.h"

namespace kdagen::cli {

std::string read_source(const std::string& path) {
  std::string error;
  if (auto text = runtime::read_file(path, error)) return std::move(*text);
  throw UsageError(fmt::format("--source {}: cannot be read: {}", path, error));
}

}  // namespace kdagen::cli
