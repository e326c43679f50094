// SPDX-License-Identifier: Apache-2.0
#include "codegen/evaluator/storage.h"

#include <kdagen/error.h>

#include "mlir/IR/BuiltinTypes.h"

namespace kdagen::evaluator {

Storage storage_of(mlir::Type type) {
  if (type.isF32()) return {24, -126, std::numeric_limits<float>::max()};
  if (type.isBF16()) return {8, -126, std::ldexp(255.0, 120)};
  if (type.isF16()) return {11, -14, 65504.0};
  if (type.isF64()) return {53, -1022, std::numeric_limits<double>::max()};
  if (type.isInteger(8)) return {0, 0, 127.0};
  if (type.isInteger(32)) return {0, 0, 2147483647.0};
  throw KdagenBug("a tensor has a storage type that the evaluator does not know");
}

}  // namespace kdagen::evaluator
