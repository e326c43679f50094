// SPDX-License-Identifier: Apache-2.0
// In which thread map each value is computed.
#pragma once
#include "codegen/schedule/kernel_ir.h"
#include "llvm/ADT/DenseMap.h"

namespace kdagen::schedule {

enum class Home : uint8_t {
  Row,
  Column,
  Any,  // computed wherever it is used: inputs, constants, parameter-only values, one number a tile
};

struct Homes {
  llvm::DenseMap<mlir::Value, Home> of;
  Home operator[](mlir::Value value) const { return of.lookup(value); }
  /// The map in which `op` needs its operands.
  Map map_of(mlir::Operation* op) const;
};

/// Sums over columns need rows, scans need columns; what lies between goes to the side that moves the fewest tiles
/// through shared memory (a local search over the graph: every value used on the other side costs one move).
Homes assign_homes(kda::KernelOp kernel);

/// Whether op maps element by element (also over missing axes).
bool is_pointwise(mlir::Operation* op);
/// Sum or maximum over columns / over rows / over tiles.
bool reduces(mlir::Operation* op, kda::AxisRole role);

}  // namespace kdagen::schedule
