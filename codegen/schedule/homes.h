// SPDX-License-Identifier: Apache-2.0
// In which thread map each value is computed.
#pragma once
#include "codegen/schedule/kernel_ir.h"
#include "llvm/ADT/DenseMap.h"

namespace kdagen::schedule {

enum class Home : uint8_t {
  Row,
  Column,
  Any,  // computed wherever it is used: inputs, constants, parameter-only values, one number a tile, boundaries
};

struct Homes {
  llvm::DenseMap<mlir::Value, Home> of;
  Home operator[](mlir::Value value) const { return of.lookup(value); }
  /// The map in which `op` needs its operands.
  Map map_of(mlir::Operation* op) const;
};

/// Sums over columns need rows, scans need columns; what lies between goes to the side that moves the fewest tiles
/// through shared memory. Every value used on the other side costs one move: the least sum is a minimum cut.
Homes assign_homes(kda::KernelOp kernel);

/// What an op reads from registers: its operands, or the factors of a product whose columns it sums (the sum's first
/// step is a fused multiply-add).
llvm::SmallVector<mlir::Value> register_operands(mlir::Operation* op);

/// Whether op maps element by element (also over missing axes).
bool is_pointwise(mlir::Operation* op);
/// Sum or maximum over columns / over rows / over tiles.
bool reduces(mlir::Operation* op, kda::AxisRole role);
/// Whether `axis` (null: never) is among the names.
bool lists(mlir::ArrayAttr names, kda::AxisAttr axis);

}  // namespace kdagen::schedule
