// SPDX-License-Identifier: Apache-2.0
// kda IR -> kernel IR.
#pragma once
#include <string>

#include "codegen/schedule/kernel_ir.h"
#include "mlir/IR/BuiltinOps.h"

namespace kdagen::schedule {

struct ScheduleOptions {
  std::string schedule = "default";  // default | baseline | tuned | KEY=V,... (threads, tiles_per_block, min_blocks,
                                     // heads_fastest, stages)
  std::string layout = "bthd";       // decides the default grid order
  std::string arch = "sm_90";
};

/// The tiling a schedule string stands for. Throws UsageError naming the key and what would pass.
Tiling choose_tiling(kda::KernelOp kernel, const ScheduleOptions& options);
/// Maps the (only) kernel of a normalised module; `module` must outlive the program.
Program schedule(mlir::ModuleOp module, const ScheduleOptions& options);
/// The string that names a tiling (bench prints it, `schedule=` takes it).
std::string tiling_text(const Tiling& tiling);
/// Bytes of shared memory a block may have on this architecture; UsageError for one no text can target.
int shared_limit(const std::string& arch);
/// The program as text, for `show --stage scheduled`.
std::string to_text(const Program& program);

}  // namespace kdagen::schedule
