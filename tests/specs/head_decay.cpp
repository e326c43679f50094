// SPDX-License-Identifier: Apache-2.0
// One gate a head, as in gated delta rules, with the decay multiplied in on both sides: exponents without features,
// anchored by sub-chunk. Two different exponents, so two tensors of anchors.
#include <kdagen/kdagen.h>
using namespace kdagen;

static Spec head_decay(const Options& o) {
  Spec s("head_decay", "q * 2^G, k * 2^-G, k * 2^(G/2), G the sum of a gate of the head", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value q = s.input("q", {t, h, d}), k = s.input("k", {t, h, d}), x = s.input("x", {t, h});
  Value g = s.let("g", -7.0 * sigmoid(x)), G = s.let("G", cumsum(g, t));
  s.output("k_i", k * exp2(-G)).anchor("subchunk");
  s.output("q_d", q * exp2(G)).anchor("subchunk");
  s.output("k_h", k * exp2(G * 0.5)).anchor("subchunk");
  return s;
}
KDAGEN_SPEC(head_decay, head_decay)
