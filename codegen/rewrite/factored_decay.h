// SPDX-License-Identifier: Apache-2.0
// factored-decay: the cotangent of an exponent reuses the products that the cotangents of the decayed values hold.
//
// For outputs y_i = c_i*x*2^{+-G} (with any other factors) the chain rule gives, term by term,
//   dx = sum_i dy_i*c_i*2^{+-G}            dG = ln2 * sum_i +-x*dy_i*c_i*2^{+-G}
//   ->  p = the terms with one sign, n = those with the other:   dx = p + n,   dG = ln2 * x*(p - n)
// and likewise with more than two weights (several exponents over one x): every group of terms that all users weigh
// alike is one value, computed once.
// Where the exponents have no features, ln2*e*sum_d(x*dy) + ... becomes one row sum, ln2*sum_d(x*(e*dy + ...)), first.
// Guard: a term of dG divided by the forward factor x is, up to a constant, a term of another value that is needed
// anyway; the terms hold an exponential, or at least two of them share x. Without such a value (x has no gradient) at
// least two terms with an exponential share x: dG = x*(sum of +-dy*2^{+-G}). The other value has no axis
// that dG lacks. No value is built from one that is
// computed from it, even where the terms that say so cancel. Values that already stand in several places are not taken
// apart.
#pragma once
#include "codegen/rewrite/rewrite.h"

namespace kdagen::kda {
void factored_decay(KernelOp kernel, RewriteReport& report);
}  // namespace kdagen::kda
