// SPDX-License-Identifier: Apache-2.0
// specs/kda_k1.cpp with its declarations and outputs in another order: it must pass the same checks.
#include <kdagen/kdagen.h>
using namespace kdagen;

static Value keep(const Value& x) { return exp2(x - detach(x)); }  // 1, with the derivative of 2^x over 2^x

static Spec kda_k1(const Options& o) {
  Spec s("kda_k1", "KDA preamble: normalised q and k, bounded gate, decay products of a chunk", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Constant lower_bound = o.number("lower_bound", -5, -1e4, 0);  // nats a token
  Constant scale = o.number("scale", 1 / std::sqrt(o.dim()), -1e6, 1e6), eps = o.number("eps", 1e-6, 0, 1);
  const std::string handover = o.choice("handover", "raw", {"raw", "premult", "premult4", "fused"});
  const std::string gt = o.choice("gt", "k2", {"k2", "pure"});
  const std::string anchor = o.choice("anchor", "none", {"none", "static", "subchunk"});
  if (gt == "pure" && (handover == "premult" || handover == "fused"))
    throw UsageError("option gt=pure: handover=" + handover + " has no k_r; pass gt=k2, or handover=raw or premult4");
  if (anchor != "none" && handover != "raw")
    throw UsageError("option anchor=" + anchor + ": handover=" + handover + " stores no decay; pass anchor=none");

  Value dt_bias = s.param("dt_bias", {h, d}), A_log = s.param("A_log", {h});
  Value beta_raw = s.input("beta_raw", {t, h}), v = s.input("v", {t, h, d}), g_raw = s.input("g_raw", {t, h, d});
  s.output("beta", sigmoid(beta_raw));
  s.output("v_out", v);
  Value z = s.let("z", exp(A_log) * (g_raw + dt_bias));
  Value g = s.let("g", lower_bound * log2e * sigmoid(z));  // log2 units a token
  Value g_c = s.let("g_c", cumsum(g, t)), g_T = total(g, t), e_T = s.let("e_T", exp2(g_T));
  Value k = s.input("k", {t, h, d}), q = s.input("q", {t, h, d});
  Value k_inv = s.let("k_inv", rsqrt(sum(k * k, d) + eps)), k_n = s.let("k_n", k * k_inv);
  Value q_inv = s.let("q_inv", rsqrt(sum(q * q, d) + eps)), q_n = s.let("q_n", q * q_inv);
  Value g_end = gt == "k2" ? detach(g_T) : g_T;  // k2: the consumer puts sum_r k_r*dk_r into dg_T itself

  if (handover == "raw") {
    s.output("k_r", k_n * exp2(g_end - g_c));
    s.output("k_i", k_n * exp2(-g_c)).anchor(anchor);
    s.output("k_d", k_n * exp2(g_c)).anchor(anchor);
    s.output("q_d", q_n * exp2(g_c) * scale).anchor(anchor);
  } else if (handover == "fused") {
    s.output("q_n", q_n);
    s.output("k_n", k_n);
    s.output("g_c", g_c).dtype(f32).cotangent_unit(ln2);
  } else {  // values q_n and k_n; the cotangents come multiplied by the decay factor
    s.output("q_p", q_n * keep(g_c));
    s.output("k_p", k_n * keep(g_c));
    s.output(handover == "premult" ? "k_m" : "k_mi", k_n * keep(-g_c));
    if (handover == "premult4") s.output("k_mr", k_n * keep(g_end - g_c));
  }
  if (handover != "fused") s.output("g_T", g_T).dtype(f32).cotangent_unit(gt == "k2" ? ln2 : 1.0);
  if (o.integer("diag", 0, 0, 1)) s.output("qk", sum(scale * q_n * k_n, d));  // the chunk's diagonal of q k^T
  return s;
}
KDAGEN_SPEC(kda_k1, kda_k1)
