// SPDX-License-Identifier: Apache-2.0
// A made-up spec whose parameters meet each other before they meet a row: weights by a softmax over the features of a
// parameter, and a gate whose rate is a parameter's mean.
#include <kdagen/kdagen.h>
using namespace kdagen;

static Spec mixture(const Options& o) {
  Spec s("mixture", "softmax of a parameter over the features, a rate that is a parameter's mean", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value x = s.input("x", {t, h, d}), a = s.input("a", {t, h});
  Value logits = s.param("logits", {h, d}), rates = s.param("rates", {d});

  Value shifted = s.let("shifted", exp(logits - max(logits, d)));
  s.output("y", x * (shifted / sum(shifted, d)));
  s.output("gate", cumsum(sigmoid(a * mean(rates * rates, d)), t)).dtype(f32);
  return s;
}
KDAGEN_SPEC(mixture, mixture)
