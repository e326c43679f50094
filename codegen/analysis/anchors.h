// SPDX-License-Identifier: Apache-2.0
// Anchored outputs: stored as value * 2^s, s an integer that moves the exponential factor's range to both sides of 1.
//
// static:   s is fixed: minus the middle of the exponent's range, rounded to an integer (for a decay summed over a
// chunk
//           that is rint(chunk*|bound|/2)).
// subchunk: s = n - rint(the exponent in the last row before the row's sub-chunk), n as for static but over the rows of
// a
//           sub-chunk. An integer for each sub-chunk, made of rows before it; an output of its own.
#pragma once
#include "codegen/ir/Dialect.h"

namespace kdagen {

/// Rows of a sub-chunk.
inline constexpr int64_t subchunk_rows = 16;

/// Attribute of ops that make an anchored exponent: where bounds or chunk are assumed to be others, s is chosen anew.
inline constexpr const char* anchored_attribute = "kda.anchor";

/// Chooses s for every output with an `anchor_kind` and writes the output's value as ...2^(exponent + s)... The
/// cotangent of such an output belongs to the stored number; s is constant under the derivative. static sets `anchor`.
/// subchunk sets `anchor_tensor` and `anchor_sign` and adds that tensor: outputs with one exponent, up to its sign,
/// share the i32 output NAME_anchor, NAME the first of them. Removes `anchor_kind`. Throws SpecError if the output has
/// no exponential factor, if the exponent has no bounds (subchunk: inside a sub-chunk), or if a chunk is no longer than
/// a sub-chunk.
void place_anchors(kda::KernelOp forward);

}  // namespace kdagen
