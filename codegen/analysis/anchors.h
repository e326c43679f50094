// SPDX-License-Identifier: Apache-2.0
// Anchored outputs: stored as value * 2^s, s a fixed integer that moves the exponential factor's range to both sides
// of 1.
#pragma once
#include "codegen/ir/Dialect.h"

namespace kdagen {

/// Chooses s for every output with `anchor_kind` static and writes the output's value as ...2^(exponent + s)...: s is
/// minus the middle of the exponent's range, rounded to an integer (for a decay summed over a chunk that is
/// rint(chunk*|bound|/2)). The cotangent of such an output belongs to the stored number. Sets `anchor`, removes
/// `anchor_kind`. Throws SpecError if the output has no exponential factor or the exponent has no bounds.
void place_anchors(kda::KernelOp forward);

}  // namespace kdagen
