// SPDX-License-Identifier: Apache-2.0
// Root-mean-square norm of a row, with a weight per feature.
#include <kdagen/kdagen.h>
using namespace kdagen;

static Spec rmsnorm(const Options& o) {
  Spec s("rmsnorm", "y = weight * x / sqrt(mean(x^2) + eps)", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Constant eps = o.number("eps", 1e-6, 0, 1);
  Value x = s.input("x", {t, h, d});
  Value weight = s.param("weight", {d});
  Value inv = s.let("inv", rsqrt(mean(x * x, d) + eps));
  s.output("y", x * inv * weight);
  return s;
}
KDAGEN_SPEC(rmsnorm, rmsnorm)
