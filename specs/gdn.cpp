// SPDX-License-Identifier: Apache-2.0
// Preamble of gated delta net: one softplus gate a token and head, normalised q and k, beta.
#include <kdagen/kdagen.h>
using namespace kdagen;

static Spec gdn(const Options& o) {
  Spec s("gdn", "GDN preamble: scalar softplus gate, normalised q and k, beta", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Constant eps = o.number("eps", 1e-6, 0, 1);
  Value q = s.input("q", {t, h, d}), k = s.input("k", {t, h, d});
  Value a_raw = s.input("a_raw", {t, h}), beta_raw = s.input("beta_raw", {t, h});
  Value A_log = s.param("A_log", {h}), dt_bias = s.param("dt_bias", {h});

  Value g = s.let("g", -exp(A_log) * log2e * softplus(a_raw + dt_bias));  // log2 units a token
  Value g_c = s.let("g_c", cumsum(g, t)), g_T = total(g, t);
  s.output("q_n", l2norm(q, d, eps));
  s.output("k_n", l2norm(k, d, eps));
  s.output("g_c", g_c).dtype(f32).cotangent_unit(ln2);  // consumers differentiate by natural logarithms
  s.output("g_T", g_T).dtype(f32).cotangent_unit(ln2);
  s.output("beta", sigmoid(beta_raw));
  return s;
}
KDAGEN_SPEC(gdn, gdn)
