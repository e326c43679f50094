// SPDX-License-Identifier: Apache-2.0
#include "codegen/evaluator/instance.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <kdagen/error.h>

namespace kdagen::evaluator {

Instance Instance::fixed(int64_t batch, int64_t tokens, int64_t heads) {
  return {batch, heads, std::vector<int64_t>(batch, tokens), tokens, false};
}

Instance Instance::packed_row(std::vector<int64_t> seqlens, int64_t heads, int64_t dead_rows) {
  int64_t used = std::accumulate(seqlens.begin(), seqlens.end(), int64_t{0});
  return {1, heads, std::move(seqlens), used + dead_rows, true};
}

int64_t Instance::capacity(int64_t chunk) const {
  int64_t whole = (tokens + chunk - 1) / chunk;
  return packed ? whole + static_cast<int64_t>(seqlens.size()) : batch * whole;
}

std::vector<Tile> Instance::tiles(int64_t chunk) const {
  std::vector<Tile> result;
  int64_t begin = 0;
  for (size_t sequence = 0; sequence < seqlens.size(); ++sequence) {
    for (int64_t row = 0, local = 0; row < seqlens[sequence]; row += chunk, ++local)
      result.push_back({static_cast<int64_t>(sequence), local, begin + row, std::min(chunk, seqlens[sequence] - row)});
    begin += seqlens[sequence];
  }
  return result;
}

void Instance::validate() const {
  if (batch < 1 || heads < 1 || tokens < 0)
    throw UsageError(fmt::format("batch {}, heads {}, tokens {}: batch and heads must be at least 1, tokens at least 0",
                                 batch, heads, tokens));
  if (std::any_of(seqlens.begin(), seqlens.end(), [](int64_t length) { return length < 0; }))
    throw UsageError("a sequence length is negative; 0 or more would pass");
  if (packed) {
    if (batch != 1) throw UsageError(fmt::format("packed sequences take batch 1, not {}", batch));
    int64_t used = std::accumulate(seqlens.begin(), seqlens.end(), int64_t{0});
    if (used > tokens) throw UsageError(fmt::format("the sequences have {} rows, the buffer only {}", used, tokens));
  } else if (static_cast<int64_t>(seqlens.size()) != batch ||
             std::any_of(seqlens.begin(), seqlens.end(), [&](int64_t length) { return length != tokens; })) {
    throw UsageError("fixed length takes one sequence a batch row, each as long as the buffer");
  }
}

}  // namespace kdagen::evaluator
