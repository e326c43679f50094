// SPDX-License-Identifier: Apache-2.0
// Rewrites kda IR with numerics in mind: named rules, each `pattern -> result if guard` in a header of its own.
//
// Order (rewrite.cpp); after each step equal values are merged and dead ones dropped, after `identities` these are
// applied again each time:
//   fixed-point-scan     chooses, when exponents still stand as the spec has them; the last step puts it into effect
//   rounded-operand      on the plain chain rule, where y*dy still stands in one piece
//   shared-exponential   on whole families, before a use is rewritten away; both compare with the forward as it was
//   identities, stable-sigmoid, projection, complement-scan
//   factored-decay       when dx and the operands of the scans have their final terms
//   deferred-constant    when these have their final sums
//   parameter-hoisting
//   inverse-norm         when no rule looks for an rsqrt any more
//   finite-exponential   when none looks for an exponential
//   fixed-point          integers from the sums on to the exponents
// Values that do not depend on a cotangent belong to the forward. They change only by rules that look at nothing but
// the forward's own values, so that a forward and its backward, both rewritten, compute the same bits.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "codegen/ir/Dialect.h"
#include "codegen/options.h"
#include "mlir/IR/BuiltinOps.h"

namespace kdagen::kda {

struct RewriteOptions {
  /// Outputs stored narrower than f32 form the cotangents of their exponents from the stored, rounded number. Needs
  /// `forward`.
  bool rounded_operands = false;
  /// For a backward: its forward as it will be emitted (prepare_forward), not rewritten yet. Tells what is stored how.
  KernelOp forward;
  /// Whether the argument of an exp2 (log2 units) is proven to lie inside (-126, 126). Not set: nothing is proven.
  std::function<bool(mlir::Value exp2_argument)> proven_exponent;
  /// A proven bound of |value|, infinite if there is none. Not set: there is none.
  std::function<double(mlir::Value)> magnitude;
  /// Which sums over rows are made in fixed point.
  ScanKind scan = ScanKind::automatic;
  /// User names of values that the forward saves for its backward.
  std::vector<std::string> saved;
  bool saves(mlir::Value value) const;
};

/// What fired, in the order of the rewrites; a rewrite that did not fire is listed with 0.
struct RewriteReport {
  struct Entry {
    std::string name;
    int firings = 0;
    std::vector<std::string> spec_lines;  ///< "specs/rmsnorm.cpp:12", without repeats, in order of firing
  };
  std::vector<Entry> entries;

  int firings(const std::string& name) const;
  void fired(const std::string& name, mlir::Location location);
};

/// Rewrites every kernel of the module in place, forward and backward alike.
RewriteReport rewrite(mlir::ModuleOp module, const RewriteOptions& options);

}  // namespace kdagen::kda
