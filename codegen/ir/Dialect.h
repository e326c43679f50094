// SPDX-License-Identifier: Apache-2.0
// The kda dialect's C++ face: types, ops, and the small questions every pass asks of a value.
#pragma once
#include <optional>
#include <string>

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kdagen::kda {
class Builder;
class KernelOp;

mlir::LogicalResult verify_union_axes(mlir::Operation* op);
/// Verifies that an op's result has exactly the union of its operands' axes.
template <typename ConcreteType>
class UnionAxes : public mlir::OpTrait::TraitBase<ConcreteType, UnionAxes> {
 public:
  static mlir::LogicalResult verifyTrait(mlir::Operation* op) { return verify_union_axes(op); }
};
}  // namespace kdagen::kda

#include "codegen/ir/KdaDialect.h.inc"
#include "codegen/ir/KdaEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "codegen/ir/KdaAttributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "codegen/ir/KdaInterfaces.h.inc"
#include "codegen/ir/KdaTypes.h.inc"
#define GET_OP_CLASSES
#include "codegen/ir/KdaOps.h.inc"

namespace kdagen::kda {

/// The type of a kda value.
inline ValueType type_of(mlir::Value value) { return mlir::cast<ValueType>(value.getType()); }
/// The element type of a fixed-point value; null for others.
inline FixedType fixed_type(mlir::Value value) { return mlir::dyn_cast<FixedType>(type_of(value).getElement()); }
/// The kernel an op stands in.
KernelOp kernel_of(mlir::Operation* op);
KernelOp kernel_of(mlir::Value value);
/// Whether the value varies along an axis of this role.
bool has_role(mlir::Value value, AxisRole role);
/// The user's name of a value (NameLoc), if it has one.
std::optional<std::string> user_name(mlir::Value value);
/// "specs/rmsnorm.cpp:12" for the spec line a location comes from; empty if unknown.
std::string spec_line(mlir::Location location);
/// The line number alone; 0 if unknown.
unsigned spec_line_number(mlir::Location location);
/// This location with a user's name (replacing one it may have).
mlir::Location named(mlir::Location location, llvm::StringRef name);

/// Where a value is computed: once before the tiles (parameters and constants only), in each tile, or after the sums
/// over all tiles.
enum class Section { Prologue, Tile, Epilogue };
Section section_of(mlir::Value value);

}  // namespace kdagen::kda
