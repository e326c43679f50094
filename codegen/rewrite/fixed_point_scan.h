// SPDX-License-Identifier: Apache-2.0
// fixed-point-scan: sums over rows that end as exponents, made of integers.
//
//   cumsum(x) -> cumsum(round(x * 2^N)) * 2^-N     and every other sum over rows of the same x
//   2^(a - b) -> integer subtraction; whole and fraction of the difference apart: 2^whole * 2^fraction
//   x = sigmoid(z)*c is rounded from the small side of the sigmoid (codegen/ir/FixedPoint.h)
// Guard: |x| is proven bounded, rows * |x| * 2^N fits an int32 with N >= 20, x is the forward's own value, and neither
// the sum nor an exponent made of it is saved (it would be stored as a float, and the backward would have other bits).
// scan=auto asks that the sum, through neg, add and sub, ends in a 2^x; scan=fixed does not ask; scan=float never
// fires.
//
// Why: a float of size 100 has steps of 2^-17, and 2^x turns each into a relative error of 2^-17.5. Integers have the
// same steps everywhere, and their sums are exact: any order of additions gives the same bits.
// N is the largest that fits, at most 30. Below 20 the steps would cost weak gates more than float sums do.
//
// Two steps, so that the other rewrites see exponents as the spec wrote them: `choose` marks the sums, in a backward by
// what its forward does; `lower`, the last step of all, gives them their fixed-point type.
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {

/// Marks the sums over rows of the kernel (and of options.forward, so that both compare equal).
void choose_fixed_point_scans(KernelOp kernel, const RewriteOptions& options, RewriteReport& report);

/// Marked sums become sums of kda.to_fixed; neg, add, sub, rint, broadcast, last and boundary of fixed-point values
/// stay so where their range fits and a constant is a multiple of the unit; 2^x takes the result as it is; all others
/// read it through kda.from_fixed.
void lower_fixed_point_scans(KernelOp kernel, const RewriteOptions& options);

/// A sum over rows of a rewritten kernel, for reports.
struct RowSum {
  mlir::Value value;
  int fraction_bits = -1;  ///< -1: a float sum
};
std::vector<RowSum> sums_over_rows(KernelOp kernel);

}  // namespace kdagen::kda
