// SPDX-License-Identifier: Apache-2.0
// Puts the ops of a kernel into statements, phase after phase.
#pragma once
#include "codegen/schedule/homes.h"
#include "codegen/schedule/sweeps.h"
#include "llvm/ADT/DenseSet.h"

namespace kdagen::schedule {

/// List scheduling: sums, scans, moves and stores are the items; a value computed element by element is pulled in by
/// the first item of its map that needs it. Among the items that are ready, those that need no barrier come first, so
/// that the number of phases, whatever it is, follows from the graph. Fills regions, prologue, buffers and parameter
/// sums. `apart`: ops that are not done here (see row_owners.h).
void order_statements(Program& program, const Homes& homes, const Sweeps& sweeps,
                      const llvm::DenseSet<mlir::Operation*>& apart);

}  // namespace kdagen::schedule
