// SPDX-License-Identifier: Apache-2.0
// Euclidean norm of a row.
#include <kdagen/kdagen.h>
using namespace kdagen;

static Spec l2norm_spec(const Options& o) {
  Spec s("l2norm", "y = x / sqrt(sum(x^2) + eps)", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Constant eps = o.number("eps", 1e-6, 0, 1);
  Value x = s.input("x", {t, h, d});
  s.output("y", l2norm(x, d, eps));
  return s;
}
KDAGEN_SPEC(l2norm, l2norm_spec)
