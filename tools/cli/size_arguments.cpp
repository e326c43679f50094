// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/size_arguments.h"

#include "kdagen/error.h"

namespace kdagen::cli {

void SizeArguments::add_to(CLI::App& app) {
  app.add_option("--tokens", tokens_, "tokens a batch row (8192)")->check(CLI::PositiveNumber);
  app.add_option("--heads", sizes_.heads, "heads")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", sizes_.batch, "batch rows")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seqlens", sizes_.seqlens, "lengths of packed sequences: 16,33,0,7")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
}

BenchSizes SizeArguments::sizes() const {
  if (tokens_ && !sizes_.seqlens.empty()) throw UsageError("--tokens and --seqlens exclude each other; pass one");
  BenchSizes sizes = sizes_;
  sizes.tokens = tokens_.value_or(sizes.tokens);
  return sizes;
}

}  // namespace kdagen::cli
