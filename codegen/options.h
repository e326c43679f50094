// SPDX-License-Identifier: Apache-2.0
// The options that belong to the compiler (design: "the command line"); chunk, dim, dtype, out and whatever a spec
// declares belong to the DSL.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace kdagen {

enum class Layout { bthd, htd };
enum class UpstreamLayout { rows, tile };
/// How the caller stores a cotangent. fp16row: fp16 values and one int8 exponent a row, value = fp16 * 2^exponent.
enum class Upstream { f32, bf16, fp16row };
/// What the backward multiplies by: the f32 value, or the number that the forward stored. by_out: exact for an output
/// stored as f32, rounded for a narrower one.
enum class Operands { by_out, exact, rounded };
enum class Arithmetic { f64, f32 };
/// Sums over rows: in fixed point where exponents are anchored, the sum ends in one and its range is proven
/// (automatic), never, or wherever the range is proven.
enum class ScanKind { automatic, floating, fixed };

struct CompileOptions {
  std::string grads = "bf16";  // storage of gradients of inputs: bf16, fp16, f32
  Layout layout = Layout::bthd;
  Upstream upstream = Upstream::f32;
  std::map<std::string, Upstream> upstream_of;  // by output name
  UpstreamLayout upstream_layout = UpstreamLayout::rows;
  Operands operands = Operands::by_out;
  ScanKind scan = ScanKind::automatic;
  std::string schedule = "default";
  std::vector<std::string> save;            // user names of values that the forward writes and the backward reads
  Arithmetic arithmetic = Arithmetic::f64;  // of the evaluator (run --on cpu)
  std::vector<std::string> taps;            // user names of values to write out as well (run --tap)

  Upstream upstream_for(const std::string& output) const {
    auto it = upstream_of.find(output);
    return it == upstream_of.end() ? upstream : it->second;
  }
  /// Every option with its value as text, for headers, manifests and hashes; `upstream.NAME` entries included.
  std::map<std::string, std::string> resolved() const;
};

/// Takes the compiler's options out of `options` (KEY -> VALUE, as given with --set) and leaves the others there for
/// the spec. Throws UsageError naming the option, the value and what would pass.
CompileOptions take_compile_options(std::map<std::string, std::string>& options);

}  // namespace kdagen
