// SPDX-License-Identifier: Apache-2.0
// The engine of `kdagen run`: one pass of a spec on the tensors of a file.
#pragma once
#include <string>

#include "codegen/pipeline.h"
#include "runtime/safetensors.h"

namespace kdagen {

enum class Place { cpu, emulator, cuda };

struct RunRequest {
  std::string graph;  ///< the spec's JSON
  Direction direction = Direction::bwd;
  CompileOptions options;  ///< with `taps`: inner values to return too, f32; names of outputs among them change nothing
  Place place = Place::cpu;
};

/// Runs the pass and returns its outputs and taps, in the layouts of docs/architecture.md section 3.
///
/// `input`: the pass's inputs by name, and cu_seqlens ([N+1], i32 or i64) when the sequences are packed. Tensors that
/// only the spec's other pass has are passed over; optional inputs may be absent.
/// emulator, cuda: the emitted text, on inputs of exactly the kernel's dtypes; cuda takes device 0.
/// cpu: the evaluator runs the rewritten program. Arithmetic f64: its round nodes really round, inputs are taken as
/// given (the kernel's dtypes, or f64), float outputs are f64 and not rounded to their storage. Arithmetic f32: inputs
/// and outputs have the kernel's dtypes.
///
/// UsageError for a missing or unknown tensor, a wrong dtype or shape, offsets that fall, a value outside the spec's
/// bounds, and a tap without a value; SpecError for a spec whose exponents are not proven; ToolchainError where it
/// cannot run; CheckError when the emulator finds the text faulty.
runtime::TensorFile run_pass(const RunRequest& request, const runtime::TensorFile& input);

}  // namespace kdagen
