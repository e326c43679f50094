// SPDX-License-Identifier: Apache-2.0
// The tensors of a pass as its caller sees them, without emitting it.
#pragma once
#include "codegen/pipeline.h"
#include "runtime/manifest.h"

namespace kdagen {

/// Axes, sizes and tensors of a kernel, as in the manifest of its emitted text; no workspace, no launches, and no
/// alignment wishes. Its one argument is cu_seqlens.
runtime::Manifest interface_of(kda::KernelOp kernel, const CompileOptions& options);

}  // namespace kdagen
