// SPDX-License-Identifier: Apache-2.0
// Marks exponentials, reciprocals and reciprocal square roots whose argument and result are proven to be normal floats.
// Why: the hardware's instruction alone is exact about them; without the proof three more keep subnormal numbers, which
// for a kernel with several exponentials an element is a tenth of all instructions.
#pragma once
#include "codegen/ir/Dialect.h"

namespace kdagen::schedule {

/// The mark: a unit attribute of the op.
constexpr const char* normal_attribute = "kda.normal";

/// Asks the range analysis; changes no value.
void mark_normal_arguments(kda::KernelOp kernel);

}  // namespace kdagen::schedule
