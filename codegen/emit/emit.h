// SPDX-License-Identifier: Apache-2.0
// Kernel IR -> CUDA C++ text and manifest.
#pragma once
#include <string>
#include <vector>

#include "codegen/options.h"
#include "codegen/schedule/kernel_ir.h"
#include "runtime/manifest.h"

namespace kdagen::emit {

struct EmitOptions {
  std::string arch = "sm_90";
  std::string spec_hash;              // of the graph bytes
  std::string summary;                // the spec's one line
  std::string remake;                 // the command that makes this text again
  std::vector<std::string> formulas;  // printed in the header
  CompileOptions compile;
};

struct Emitted {
  std::string text;
  runtime::Manifest manifest;
};

/// Deterministic: no dates, paths or addresses. `program` gets names for its parameter sums.
Emitted emit(schedule::Program& program, const EmitOptions& options);

/// 16 hex digits over the bytes.
std::string hash_text(const std::string& bytes);

}  // namespace kdagen::emit
