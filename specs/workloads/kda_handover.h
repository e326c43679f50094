// SPDX-License-Identifier: Apache-2.0
// How kda_k1's outputs and cotangents look in each hand-over form (raw, premult, premult4, fused; gt; diag; anchor).
#pragma once
#include <string>
#include <vector>

#include "specs/workloads/kda_preamble.h"

namespace kdagen {

/// A tile, its dense number, and the head that is worked on.
struct PlacedTile {
  Tile tile;
  int64_t number;
  int64_t head;

  /// Position of row r in [B,T,H].
  int64_t row(const Shape& shape, int64_t r) const { return (tile.first_row + r) * shape.heads + head; }
  /// Position of feature 0 in a per-chunk tensor [tiles,H,D].
  int64_t chunk(const Shape& shape) const { return (number * shape.heads + head) * shape.dim; }
};

/// Replaces exact operands by the bf16 numbers that are multiplied: those handed over, or own ones rounded where they
/// would be stored. The references must outlive it.
class OperandRounding {
 public:
  OperandRounding(const PreambleOptions& options, const Shape& shape, const ConsumerOptions& consumer)
      : options_(options), shape_(shape), forward_(consumer.forward) {}

  void apply(const PlacedTile& place, const PreambleChunk& chunk, ChunkOperands& operands) const;

 private:
  const HostTensor* handed_over(const std::string& name) const;
  /// `values` holds value * 2^(-sign * operands.anchor); the stored number is value * 2^(sign * chunk.stored_anchor).
  void round_matrix(const std::string& name, int sign, const PlacedTile& place, const PreambleChunk& chunk,
                    const ChunkOperands& operands, std::vector<double>& values) const;

  const PreambleOptions& options_;
  const Shape& shape_;
  const Tensors* forward_;
};

/// Collects chunks' cotangents in the form that the spec's options ask for. The references must outlive it.
class HandOver {
 public:
  HandOver(const PreambleOptions& options, const Shape& shape);

  void write(const PlacedTile& place, const PreambleChunk& chunk, const ChunkOperands& operands,
             const ChunkCotangents& cotangents);
  Tensors take() { return std::move(result_); }

 private:
  const PreambleOptions& options_;
  const Shape& shape_;
  std::vector<std::string> names_;  ///< the form's [B,T,H,D] cotangents
  Tensors result_;
};

/// Reads one chunk of handed-over cotangents back; dg_c of the raw form is made of `operands`, so these must be the
/// numbers that the consumer multiplied.
ChunkGradient handed_gradient(const PreambleOptions& options, const Shape& shape, const PlacedTile& place,
                              const PreambleChunk& chunk, const ChunkOperands& operands, const Tensors& upstream);

}  // namespace kdagen
