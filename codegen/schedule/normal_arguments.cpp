// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/normal_arguments.h"

#include <cmath>

#include "codegen/analysis/ranges.h"

using namespace kdagen::kda;

namespace kdagen::schedule {
namespace {
const double kSmallest = std::ldexp(1.0, -126), kLargest = std::ldexp(1.0, 126);

// A relative margin for the roundings on the way to the argument.
constexpr double kMargin = 1.0 / 1024;

bool stays_normal(mlir::Operation* op, const Ranges& ranges) {
  if (!mlir::isa<Exp2Op, RcpOp, RsqrtOp>(op)) return false;
  Interval x = ranges.of(op->getOperand(0));
  // A fixed-point x may not give infinity either: its whole part is added to an exponent.
  if (fixed_type(op->getOperand(0))) return x.lo * (1 + kMargin) >= -126 && x.hi * (1 + kMargin) < 127;
  // 2^x is normal from -126 on; a subnormal x gives 1 either way.
  if (mlir::isa<Exp2Op>(op)) return x.lo * (1 + kMargin) >= -126;
  if (mlir::isa<RsqrtOp>(op)) return x.lo * (1 - kMargin) >= kSmallest;
  bool positive = x.lo * (1 - kMargin) >= kSmallest && x.hi * (1 + kMargin) <= kLargest;
  bool negative = -x.hi * (1 - kMargin) >= kSmallest && -x.lo * (1 + kMargin) <= kLargest;
  return positive || negative;
}
}  // namespace

void mark_normal_arguments(KernelOp kernel) {
  Ranges ranges = analyse(kernel);
  for (mlir::Operation& op : kernel.block())
    if (stays_normal(&op, ranges)) op.setAttr(normal_attribute, mlir::UnitAttr::get(kernel.getContext()));
}

}  // namespace kdagen::schedule
