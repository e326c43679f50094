// SPDX-License-Identifier: Apache-2.0
// The preamble of Kimi delta attention as flash-linear-attention cuts it: normalised q and k, the cumulative gate in
// log2 units, beta. Its backward starts where that library's chunk kernels end: at the gradients of q_n, k_n and of the
// cumulative gate in natural logarithms. Its chunks have 64 rows.
#include <kdagen/kdagen.h>
using namespace kdagen;

static Spec kda_fla(const Options& o) {
  o.default_chunk(64);
  Spec s("kda_fla", "KDA preamble of FLA: normalised q and k, cumulative gate, beta", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  const std::string gate = o.choice("gate", "bounded", {"bounded", "softplus"});
  Constant lower_bound = o.number("lower_bound", -5, -1e4, 0);  // nats a token; of the bounded gate
  Constant eps = o.number("eps", 1e-6, 0, 1), beta_scale = o.number("beta_scale", 1, 0, 2);
  Value q = s.input("q", {t, h, d}), k = s.input("k", {t, h, d}), g_raw = s.input("g_raw", {t, h, d});
  Value beta_raw = s.input("beta_raw", {t, h});
  // Without A_log the rate is exp(0) = 1, without dt_bias nothing is added.
  Value A_log = s.param("A_log", {h}).optional(), dt_bias = s.param("dt_bias", {h, d}).optional();

  Value x = s.let("x", g_raw + dt_bias);
  Value g =
      s.let("g", gate == "bounded" ? lower_bound * log2e * sigmoid(exp(A_log) * x) : -exp(A_log) * log2e * softplus(x));
  s.output("q_n", l2norm(q, d, eps));
  s.output("k_n", l2norm(k, d, eps));
  s.output("g_c", s.let("g_c", cumsum(g, t))).dtype(f32).cotangent_unit(ln2);
  s.output("beta", beta_scale * sigmoid(beta_raw)).dtype(f32);
  return s;
}
KDAGEN_SPEC(kda_fla, kda_fla)
