// SPDX-License-Identifier: Apache-2.0
// Work on one number a row (gates of a head, learning rates) that touches no row of features: done by a thread a row,
// for all tiles of a block at once, while its first operands travel. In the row map every lane of a row would do the
// same work again, 16 times at 128 columns; and in the midst of the tiles a load waits behind all the operands that
// were asked for before, some microseconds, in which registers hold its place.
#pragma once
#include "codegen/schedule/kernel_ir.h"
#include "llvm/ADT/DenseSet.h"

namespace kdagen::schedule {

/// The ops of a tile that read, make and feed nothing but numbers a row and a tile: closed under operands and users,
/// from inputs to outputs and sums over tiles. Empty where rows have no lanes to spare. Sums and scans over the rows
/// are taken where one warp owns all rows of a tile (8, 16 or 32: rows of 24 lie in two), sums over tiles where the
/// block's threads own a whole segment.
llvm::DenseSet<mlir::Operation*> find_row_owners(kda::KernelOp kernel, const Tiling& tiling);

/// Makes their statements (Program::owner_statements), with barriers of a warp around their moves through shared
/// memory; buffers, prologue and parameter sums are added to the program's. After order_statements.
void order_row_owners(Program& program, const llvm::DenseSet<mlir::Operation*>& ops);

}  // namespace kdagen::schedule
