// SPDX-License-Identifier: Apache-2.0
// The sizes of what is timed, for `bench` and `tune`.
#pragma once
#include <cstdint>
#include <optional>

#include <CLI/CLI.hpp>

#include "tools/bench/call.h"

namespace kdagen::cli {

/// --tokens, --heads, --batch, --seqlens.
class SizeArguments {
 public:
  /// Adds the arguments to a subcommand.
  void add_to(CLI::App& app);
  /// The sizes asked for. UsageError for tokens beside lengths.
  BenchSizes sizes() const;

 private:
  BenchSizes sizes_;
  std::optional<int64_t> tokens_;
};

}  // namespace kdagen::cli
