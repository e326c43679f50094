// SPDX-License-Identifier: Apache-2.0
// The small functions in front of a kernel: rows in the row map, and sums along them.
#pragma once
#include <set>
#include <string>

#include "codegen/emit/writer.h"
#include "codegen/schedule/kernel_ir.h"

namespace kdagen::emit {

/// Prints those helpers whose names are in `used` (and those they call).
void print_helpers(Writer& out, const schedule::Tiling& tiling, const std::set<std::string>& used);

/// In front of the entries for aligned tensors, or for those of any alignment; "#endif" ends them.
const char* variant_guard(bool aligned);

}  // namespace kdagen::emit
