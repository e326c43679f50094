// SPDX-License-Identifier: Apache-2.0
// The kernels after the tiles: parameter sums over segments, then what depends on them.
#pragma once
#include <set>
#include <string>

#include "codegen/emit/emit.h"
#include "codegen/emit/manifest.h"
#include "codegen/emit/writer.h"

namespace kdagen::emit {

/// Whether any output is computed outside the tiles.
bool has_finish(const schedule::Program& program);
/// Prints <kernel>_segments (if there are parameter sums): partials of segments -> one sum a head and column.
void print_segments_kernel(Writer& out, const schedule::Program& program, runtime::Manifest& manifest);
/// Prints <kernel>_finish: feature trees, sums over heads, adjoints of parameter-only values, stores.
void print_finish_kernel(Writer& out, const schedule::Program& program, const Names& names, runtime::Manifest& manifest,
                         std::set<std::string>& helpers);

}  // namespace kdagen::emit
