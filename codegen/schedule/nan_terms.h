// SPDX-License-Identifier: Apache-2.0
// NaN beside fixed-point sums: integers have none, so it travels as a float.
//
//   p = -0 * |sum_t(x)|      -0, or NaN where an x of the chunk's column is NaN; x is what a kda.to_fixed converts
//   2^s -> 2^s + p           for an exponent s made of integer sums of x, likewise for floats made of them
//   a*2^s -> fma(a, 2^s, p)  where that is the only reader of 2^s in need of p: the fma costs what the product does
// A reader is not in need if it, or whatever is made of it, is NaN by another operand. Adding -0 changes no bit of a
// number, so NaN is looked for once a column, not at each addition and each 2^x.
//
// The total makes the rows before the NaN NaN as well, in the same chunk, head and column. A kernel that has no total
// of x gets a scan of it instead, like its integer scan: a total would take a pass of its own over a tile of several
// steps.
#pragma once
#include "codegen/ir/Dialect.h"

namespace kdagen::schedule {

/// After products are contracted, and before anyone asks what one is made of.
void add_nan_terms(kda::KernelOp kernel);

}  // namespace kdagen::schedule
