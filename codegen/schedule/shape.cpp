// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/kernel_ir.h"

using namespace kdagen::kda;

namespace kdagen::schedule {

Shape shape_of(mlir::Value value) {
  bool rows = has_role(value, AxisRole::Rows), columns = has_role(value, AxisRole::Feature);
  if (rows) return columns ? Shape::Tile : Shape::Rows;
  return columns ? Shape::Columns : Shape::Single;
}

}  // namespace kdagen::schedule
