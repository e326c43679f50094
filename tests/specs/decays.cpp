// SPDX-License-Identifier: Apache-2.0
// Ways to gate a value by an exponential of a cumulative sum, with which kernels for linear attention have overflowed.
#include <kdagen/kdagen.h>
using namespace kdagen;

/// The gate of a token, in log2 units.
static Value gate_of(Spec& s, const Options& o, Axis t, Axis h, Axis d) {
  const std::string gate = o.choice("gate", "bounded", {"bounded", "softplus", "any", "declared", "decay"});
  const double strength = o.number("strength", 1, 0, 1e4).value();
  const Constant bound = o.number("bound", -5, -1e4, 0);  // nats a token
  if (gate == "declared") return s.input("gate", {t, h, d}).bounds(bound.value(), 0) * log2e;
  if (gate == "decay") {  // the factor itself: (least^strength, 1]
    const double least = o.number("least", 0, 0, 1).value();
    Value decay = s.input("gate", f32, {t, h, d}).bounds(least, 1);
    return log(decay) * (strength * log2e);
  }
  Value x = s.input("gate", {t, h, d});
  if (gate == "any") return x * (strength * log2e);
  if (gate == "softplus") return -softplus(x * strength) * log2e;
  return bound * log2e * sigmoid(x * strength);
}

static Spec decays(const Options& o) {
  Spec s("decays", "x * 2^(what a form makes of the gates' sum)", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  const std::string form = o.choice("form", "decay",
                                    {"decay", "inverse", "inverse_exclusive", "to_end", "to_end_exclusive",
                                     "masked_difference", "masked_capped", "apart"});
  const std::string anchor = o.choice("anchor", "none", {"none", "static", "subchunk"});
  Value x = s.input("x", {t, h, d});
  Value g = s.let("g", gate_of(s, o, t, h, d)), G = s.let("G", cumsum(g, t)), G_T = s.let("G_T", total(g, t));
  Value before = s.let("before", cumsum(g, t, {.exclusive = true}));
  Value y;
  if (form == "decay")
    y = x * exp2(G);
  else if (form == "inverse")
    y = x * exp2(-G);
  else if (form == "inverse_exclusive")
    y = x * exp2(-before);
  else if (form == "to_end")
    y = x * exp2(G_T - G);
  else if (form == "to_end_exclusive")
    y = x * exp2(before - G_T);  // backwards: grows where a decay was meant
  else if (form == "apart")
    s.output("exponent", G).dtype(f32), y = x;
  else {  // a difference to a row in the middle, of which only the rows behind it are wanted
    Value middle = sum(select(less(index(t), 8.0), g, Value(0.0)), t), difference = G - middle;
    if (form == "masked_capped") difference = min(difference, 0.0);
    y = x * select(less(index(t), 7.0), Value(0.0), exp2(difference));
  }
  s.output("y", y).anchor(anchor);
  return s;
}
KDAGEN_SPEC(decays, decays)
