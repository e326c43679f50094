// SPDX-License-Identifier: Apache-2.0
// Tiles longer than a step: which pass over the steps computes each value.
#pragma once
#include "codegen/schedule/kernel_ir.h"
#include "llvm/ADT/DenseMap.h"

namespace kdagen::schedule {

struct Sweeps {
  /// For a value with rows (and for outputs): the sweep that computes it. For one without: the number of sweeps that
  /// must have ended before.
  llvm::DenseMap<mlir::Operation*, int> of;
  /// reverse[s]: sweep s goes from the last step to the first.
  std::vector<bool> reverse;
};

/// A scan needs its direction and, as everything else, what it reads; sums over the rows are there when a sweep has
/// ended. What that leaves open (an output may wait for a later sweep) is done as early as it can be, or as late:
/// whichever loads and keeps fewer bytes of a tile. With one step (`steps` == 1) there is one sweep and no such order.
Sweeps assign_sweeps(kda::KernelOp kernel, int steps);

}  // namespace kdagen::schedule
