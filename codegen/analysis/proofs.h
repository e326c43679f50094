// SPDX-License-Identifier: Apache-2.0
// What has to be proven of a kernel, and what a user could change to make a proof hold.
#pragma once
#include <vector>

#include "codegen/analysis/ranges.h"

namespace kdagen {

/// One exponential of the tiles: 2^argument (or e^argument) stays finite if the argument, in log2 units, stays below
/// 128.
struct Obligation {
  mlir::Operation* exponential;
  mlir::Value argument() const { return exponential->getOperand(0); }
  /// log2 units per unit of the argument: 1 for exp2, log2(e) for exp.
  double units() const;
  /// The argument's range in log2 units.
  Interval range(const Ranges& ranges) const;
};

/// In program order, one for each distinct argument. Row exponents that the caller hands over with a cotangent are
/// integers of a byte and need no proof.
std::vector<Obligation> obligations(kda::KernelOp kernel);

/// Whether the range passes; with a margin for the roundings of the argument's own computation.
bool passes(Interval range, const ProofOptions& options);
/// The limit on |exponent| that the headroom rule adds; infinite without a do_scale.
double headroom_limit(const ProofOptions& options);

/// What would make the proof hold: "chunk=16 (limit 17) | lower_bound >= -1.386 | ...", each found by trying.
std::string advice(const Obligation& obligation, const ProofOptions& options);

}  // namespace kdagen
