// SPDX-License-Identifier: Apache-2.0
// Preamble of gated linear attention: a vector gate without parameters. The gate has no lower bound, so 2^-g_c could
// overflow and is not among the outputs; the consumer takes q, k and g_c inside a chunk and subtracts first.
#include <kdagen/kdagen.h>
using namespace kdagen;

static Spec gla(const Options& o) {
  Spec s("gla", "GLA preamble: log-sigmoid gate per feature, decayed q and k", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Constant scale = o.number("scale", 1 / std::sqrt(o.dim()), -1e6, 1e6);
  Constant gate_divisor = o.number("gate_divisor", 16, 1e-3, 1e6);
  Value q = s.input("q", {t, h, d}), k = s.input("k", {t, h, d}), g_raw = s.input("g_raw", {t, h, d});

  Value g = s.let("g", logsigmoid(g_raw) * (log2e / gate_divisor));  // log2 units a token, at most 0
  Value g_c = s.let("g_c", cumsum(g, t)), g_T = total(g, t);
  s.output("q_d", q * exp2(g_c) * scale);
  s.output("k_r", k * exp2(g_T - g_c));
  s.output("g_c", g_c).dtype(f32).cotangent_unit(ln2);  // consumers differentiate by natural logarithms
  s.output("g_T", g_T).dtype(f32).cotangent_unit(ln2);
  return s;
}
KDAGEN_SPEC(gla, gla)
