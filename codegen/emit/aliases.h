// SPDX-License-Identifier: Apache-2.0
// Outputs that are an input unchanged: a caller may pass one memory for both, and then nothing is moved.
#pragma once
#include "codegen/schedule/kernel_ir.h"

namespace kdagen::emit {

/// The input that an output may share its memory with, or null: same value, storage, axes and layout.
kda::InputOp alias_of(const schedule::Program& program, kda::OutputOp output);

/// "arguments.y.data != arguments.x.data" for an input that such outputs alone read, and for those outputs; else "".
std::string unless_aliased(const schedule::Program& program, const class Names& names,
                           mlir::Operation* input_or_output);

}  // namespace kdagen::emit
