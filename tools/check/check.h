// SPDX-License-Identifier: Apache-2.0
// The engine of `kdagen check`: does the compiled program compute what the spec says, as precisely as promised?
//
//   cpu             float64 rewritten == float64 unrewritten == finite differences (small instance), and the rewritten
//                   program in float32 against float64 within the bounds of tools/judge
//   emulator, cuda  the same, with the emitted text in place of the float32 evaluator, run twice to the same bits
//
// Backward passes are judged twice, with f32 gradients and in the dtype asked for; with rounded operands also end to
// end against the exact gradient of consumer(forward(inputs)).
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/pipeline.h"
#include "specs/workloads/workload.h"
#include "tools/check/subject.h"
#include "tools/judge/report.h"

namespace kdagen {

/// K: computed errors stay below K times the running error analysis, for every spec, pass and size.
inline constexpr double error_factor = 1;

struct CheckRequest {
  std::string graph;  ///< JSON of the spec under its options
  CompileOptions options;
  bool forward = true, backward = true;
  std::string on = "cpu";               ///< cpu, emulator or cuda
  std::optional<std::string> regime;    ///< all that the workload declares if not set
  std::optional<std::string> pipeline;  ///< exact or bf16; by the operand rule if not set
  double do_scale = 1;
  uint64_t seed = 1;
  Shape shape;                      ///< chunk and dim are the graph's
  bool leave_out_optional = false;  ///< optional inputs are not given
  /// Builds what runs a compiled pass; needed unless on cpu. Throws what emission and compilation throw.
  std::function<std::unique_ptr<Subject>(Compilation&)> emit;
  /// `emit` hands over one given text whatever it is asked for: only the gradients' own storage is judged.
  bool given_text = false;
};

/// 300 ragged tokens in packed sequences (a single row, an empty one, dead rows at the end), 4 heads.
Shape default_check_shape();
/// --tokens, --batch: fixed length; --seqlens: packed, with --unused-rows after the last. Throws UsageError when both
/// are given, or unused rows with a fixed length.
Shape check_shape(std::optional<int64_t> tokens, const std::vector<int64_t>& seqlens, std::optional<int64_t> batch,
                  std::optional<int64_t> heads, std::optional<int64_t> unused_rows = std::nullopt);

/// Throws UsageError for a regime or pipeline that there is not, and what compilation throws.
CheckReport run_check(const CheckRequest& request);

}  // namespace kdagen
