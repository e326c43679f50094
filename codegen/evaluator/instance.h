// SPDX-License-Identifier: Apache-2.0
// The sizes of one evaluation: sequences, their tiles, heads. Free of MLIR.
#pragma once
#include <cstdint>
#include <vector>

namespace kdagen::evaluator {

/// One chunk of one sequence: rows [first_row, first_row + rows) of the flattened [B*T] token axis. Its dense number is
/// its position in Instance::tiles().
struct Tile {
  int64_t sequence;   ///< batch row (fixed length) or sequence number (packed)
  int64_t local;      ///< chunk number inside its sequence
  int64_t first_row;  ///< in [0, B*T)
  int64_t rows;       ///< 1..chunk valid rows
};

/// Fixed length: `batch` sequences of `tokens` rows each. Packed: one batch row of `tokens` rows, the sequences one
/// after another from its first row (empty ones allowed); rows after the last sequence are dead.
struct Instance {
  int64_t batch = 1;
  int64_t heads = 1;
  std::vector<int64_t> seqlens;  ///< one entry a sequence; fixed length: `batch` entries, each equal to `tokens`
  int64_t tokens = 0;            ///< T: rows of one batch row in memory, dead rows included
  bool packed = false;

  static Instance fixed(int64_t batch, int64_t tokens, int64_t heads);
  static Instance packed_row(std::vector<int64_t> seqlens, int64_t heads, int64_t dead_rows = 0);

  /// B*T: rows of a token tensor's buffer.
  int64_t rows() const { return batch * tokens; }
  /// Tile slots, the extent of per-chunk tensors: B*ceil(T/C) for fixed length, ceil(T/C)+N packed.
  int64_t capacity(int64_t chunk) const;
  /// The tiles that hold rows, numbered densely in sequence order; at most capacity(chunk) of them.
  std::vector<Tile> tiles(int64_t chunk) const;
  /// Throws UsageError when the sizes contradict one another.
  void validate() const;
};

}  // namespace kdagen::evaluator
