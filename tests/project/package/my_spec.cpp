// SPDX-License-Identifier: Apache-2.0
#include <kdagen/kdagen.h>

#include "eps.h"
using namespace kdagen;

static Spec my_spec(const Options& o) {
  Spec s("my_spec", "tanh of a normalised row", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value x = s.input("x", {t, h, d});
  s.output("y", tanh(x * rsqrt(mean(x * x, d) + o.number("eps", default_eps, 0, 1))));
  return s;
}
KDAGEN_SPEC(my_spec, my_spec)
