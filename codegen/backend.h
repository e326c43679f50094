// SPDX-License-Identifier: Apache-2.0
// The last steps of the pipeline: rewritten kda IR -> kernel IR -> text and manifest.
#pragma once
#include <string>

#include "codegen/emit/emit.h"
#include "codegen/pipeline.h"

namespace kdagen {

/// The kernel IR of a pass as text. Throws SpecError for ranges that are not proven, UsageError for a schedule that
/// does not fit the spec or the architecture.
std::string scheduled_text(Compilation& compilation, const std::string& arch);

/// A schedule, and what it takes of a multiprocessor.
struct ScheduleFigures {
  schedule::Tiling tiling;
  int shared_bytes = 0;     ///< of a block
  int slot_bytes = 0;       ///< of staged operands that arrive together
  int resident_blocks = 1;  ///< by the registers that the values take
};
/// `schedule` stands in for the compilation's own option. Errors as above, but ranges are not asked.
ScheduleFigures schedule_figures(Compilation& compilation, const std::string& arch, const std::string& schedule);

/// The program that the text of a pass spells out, one primitive an operation. Evaluated in float32 with its outputs
/// rounded to their storage it gives the bits that the text gives on the emulator.
mlir::OwningOpRef<mlir::ModuleOp> spelled_out(Compilation& compilation);

/// CUDA C++ and manifest of a pass; errors as above. `force` leaves the ranges unproven.
emit::Emitted emit_kernel(Compilation& compilation, const std::string& arch, bool force = false);
/// The same with another schedule than the compilation's.
emit::Emitted emit_kernel_as(Compilation& compilation, const std::string& schedule, const std::string& arch,
                             bool force = false);

}  // namespace kdagen
