// SPDX-License-Identifier: Apache-2.0
// Specs that use the rules in other combinations than the shipped ones do.
#include <kdagen/kdagen.h>
using namespace kdagen;

/// Raw decays of a gate that has no feature axis.
static Spec row_decay(const Options& o) {
  Spec s("row_decay", "decay products of one gate a row", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value q = s.input("q", {t, h, d}), k = s.input("k", {t, h, d}), a = s.input("a", {t, h});
  Value bias = s.param("bias", {h});
  Value q_n = s.let("q_n", l2norm(q, d)), k_n = s.let("k_n", l2norm(k, d));
  Value g = s.let("g", -2.0 * log2e * sigmoid(a + bias));
  Value c = s.let("c", cumsum(g, t)), end = total(g, t);
  s.output("y", q_n * exp2(c));
  s.output("up", k_n * exp2(c));
  s.output("down", k_n * exp2(-c));
  s.output("rest", k_n * exp2(end - c));
  s.output("end", end).dtype(f32);
  return s;
}
KDAGEN_SPEC(row_decay, row_decay)

/// Natural exponentials, two gates over one x, a weight per feature, a value that two outputs share.
static Spec two_gates(const Options& o) {
  Spec s("two_gates", "two gates, natural exponentials, weights", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value x = s.input("x", {t, h, d}), u = s.input("u", {t, h, d}), v = s.input("v", {t, h, d});
  Value w = s.param("w", {d}), rate = s.param("rate", {h, d});
  Value g = s.let("g", -0.5 * softplus(u * exp(rate))), f = s.let("f", -0.25 * sigmoid(v));
  Value G = s.let("G", cumsum(g, t)), F = s.let("F", cumsum(f, t, {.exclusive = true}));
  Value xw = s.let("xw", x * w);
  s.output("a", xw * exp(G));
  s.output("b", xw * exp2(F) * exp(-G));
  s.output("c", x * exp2(-F) * 0.5);
  s.output("both", xw * exp(G) * exp2(F) * silu(v));
  s.output("last", last(G, t)).dtype(f32);
  return s;
}
KDAGEN_SPEC(two_gates, two_gates)

/// A chunk's end value by last instead of total, reverse sums, and several outputs that decay from the end.
static Spec from_the_end(const Options& o) {
  Spec s("from_the_end", "decays counted from the end of the chunk", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value k = s.input("k", {t, h, d}), v = s.input("v", {t, h, d}), g_raw = s.input("g_raw", {t, h, d});
  Value g = s.let("g", -log2e * sigmoid(g_raw));
  Value c = s.let("c", cumsum(g, t)), end = s.let("end", last(c, t));
  Value back = s.let("back", cumsum(g, t, {.exclusive = true, .reverse = true}));
  Value rest = exp2(end - c);
  s.output("k_rest", k * rest);
  s.output("v_rest", v * rest);
  s.output("k_back", k * exp2(back));
  s.output("scaled", v * exp2(c) * exp2(end));
  s.output("spread", k * end + c * 0.125);
  s.output("end_out", exp2(end)).dtype(f32);
  return s;
}
KDAGEN_SPEC(from_the_end, from_the_end)

/// Norms in other shapes: of a product, over rows, one inside the other; softmax, powers, kinks.
static Spec norms(const Options& o) {
  Spec s("norms", "norms, softmax, powers", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value x = s.input("x", {t, h, d}), y = s.input("y", {t, h, d});
  Value w = s.param("w", {h, d});
  Value p = s.let("p", x * sigmoid(y));
  Value n = s.let("n", p * rsqrt(sum(p * p, d) + 1e-3) * w);
  Value m = s.let("m", rmsnorm(n + x, d));
  Value column = s.let("column", x * rsqrt(sum(x * x, t) + 1.0));
  s.output("a", m * softmax(y, d));
  s.output("b", pow(n, 2.0) - pow(abs(x) + 0.5, 1.5) / 3.0);
  s.output("c", column * max(n, y) + clamp(y, -0.5, 0.5));
  s.output("d", shift(p, t, 1) * n - shift(n, t, -2, 1.0));
  return s;
}
KDAGEN_SPEC(norms, norms)
