// SPDX-License-Identifier: Apache-2.0
// Small kda kernels from text, and arrays to feed them.
#pragma once
#include <string>

#include <fmt/format.h>

#include "codegen/diagnostics.h"
#include "codegen/evaluator/evaluator.h"
#include "codegen/import/from_graph.h"
#include "mlir/IR/MLIRContext.h"
#include "tests/common/draws.h"

namespace kdagen::testing {

/// A kernel with axes b, n, t (`chunk` rows), h, d (`dim` columns). In `body` write !T for token values with all axes,
/// !R for row scalars (no d), !C for per-chunk values (no t), !S for per-chunk scalars (neither), !P {h,d}, !H {h},
/// !D {d}, !K for scalars, and a trailing B for truth values (!TB).
class Kernel {
 public:
  Kernel(const std::string& body, int64_t chunk, int64_t dim, const std::string& direction = "fwd") {
    std::string text = fmt::format(R"(
!T = !kda.value<[b, n, t, h, d], f32>
!TB = !kda.value<[b, n, t, h, d], i1>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!S = !kda.value<[b, n, h], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!D = !kda.value<[d], f32>
!K = !kda.value<[], f32>
kda.kernel "test" "{}" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, {}>,
    #kda.axis<"h", head, 0>, #kda.axis<"d", feature, {}>] parallel ["b", "n", "h"] sequential [] options {{}} {{
)",
                                   direction, chunk, dim);
    module_ = parse_module(text + body + "}\n", context_);
  }
  kda::KernelOp op() { return only_kernel(*module_); }
  operator kda::KernelOp() { return op(); }

 private:
  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

/// One array for every input of the kernel, uniform in [low, high).
inline evaluator::Arrays draw_inputs(kda::KernelOp kernel, const evaluator::Instance& instance, uint64_t seed,
                                     double low = -1, double high = 1) {
  evaluator::Arrays arrays;
  Draws draws(seed);
  for (const auto& info : evaluator::tensors_of(kernel, instance)) {
    if (info.is_output) continue;
    int64_t count = 1;
    for (int64_t extent : info.shape) count *= extent;
    evaluator::Array& array = arrays[info.name];
    array.shape = info.shape;
    for (int64_t i = 0; i < count; ++i) array.values.push_back(draws.uniform(low, high));
  }
  return arrays;
}

}  // namespace kdagen::testing
