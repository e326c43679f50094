// SPDX-License-Identifier: Apache-2.0
// Range analysis: an interval for every value of a kernel, from the declared bounds, the storage types and the chunk,
// and the proof that no exponential overflows.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/analysis/interval.h"
#include "codegen/ir/Dialect.h"
#include "llvm/ADT/DenseMap.h"

namespace kdagen {

/// What an analysis takes for granted instead of what the kernel says: for "what would pass".
struct Assumptions {
  std::optional<int64_t> chunk;           // rows of a chunk
  std::map<std::string, double> symbols;  // values of symbolic constants
  bool any() const { return chunk || !symbols.empty(); }
};

class Ranges {
 public:
  explicit Ranges(Assumptions assumptions = {}) : assumptions_(std::move(assumptions)) {}

  /// Where the value lies, as real numbers (rounding is in the margin of `proven_exponent`). Computed when first asked
  /// for and kept: do not ask after ops have been erased.
  Interval of(mlir::Value value) const;
  /// Whether 2^argument is proven to be a normal float: the argument lies inside (-126, 126).
  bool proven_exponent(mlir::Value exp2_argument) const;

 private:
  Assumptions assumptions_;
  mutable llvm::DenseMap<mlir::Value, Interval> known_;
};

/// An op may carry what was proven of its result before a transformation hid it: DenseF64ArrayAttr {lo, hi}.
constexpr const char* proven_range_attribute = "kda.range";

/// Ranges of every value of the kernel.
Ranges analyse(kda::KernelOp kernel, Assumptions assumptions = {});

/// 2^126 and 2^-126 are the ends of the normal floats that have a normal reciprocal; 2^128 is infinite.
constexpr double exponent_limit = 128, normal_exponent_limit = 126;

/// How strict the proof is (design: "Ranges"; `kdagen ranges --do-scale X --ftz`). With a scale of the gradients given,
/// the headroom rule counts too: |exponent| <= min(126, M), M = 112 + log2(do_scale) with ftz, 132 + log2(do_scale)
/// without: beyond it products of a small factor and a small cotangent vanish.
struct ProofOptions {
  std::optional<double> do_scale;
  bool ftz = false;
};

/// One line of the report: an exponent (log2 units), an output whose storage could overflow, or a named bounded value.
struct RangeEntry {
  std::string name;       // the user's, or the formula
  std::string file_line;  // "specs/rmsnorm.cpp:12"
  unsigned line = 0;
  Interval range;
  std::string unit;     // "log2" for exponents, "1" else
  std::string verdict;  // proven | anchored | refused
  std::string advice;   // what would pass, or a note
  std::string reason;   // for refused ones: the message without place
};

/// Exponents first, then outputs in narrow storage, then named values with a bound; each in program order. Exponentials
/// of parameters alone are left out: they are the caller's numbers, evaluated once.
std::vector<RangeEntry> range_report(kda::KernelOp kernel, const ProofOptions& options = {});
/// The report as lines of text.
std::string range_text(const std::vector<RangeEntry>& entries);

/// Throws SpecError (file:line, bound, what would pass) for the first entry that is refused.
void require_proven_ranges(kda::KernelOp kernel);

}  // namespace kdagen
