// SPDX-License-Identifier: Apache-2.0
// A made-up spec with numbers that belong to a row alone (scanned both ways, summed, with a parameter) beside rows of
// features, and one number a row that meets the features.
#include <kdagen/kdagen.h>
using namespace kdagen;

static Spec ledger(const Options& o) {
  Spec s("ledger", "numbers of a row beside rows of features", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value x = s.input("x", {t, h, d}), a = s.input("a", {t, h}), b = s.input("b", {t, h}), c = s.input("c", {t, h});
  Value rate = s.param("rate", {h});

  s.output("y", tanh(x) * sigmoid(a));  // a meets the features
  Value spent = s.let("spent", softplus(b * rate));
  s.output("balance", cumsum(-spent, t)).dtype(f32);
  s.output("owed", cumsum(spent * b, t, {.exclusive = true, .reverse = true}));
  s.output("closing", total(spent, t)).dtype(f32);
  s.output("kept", c);
  s.output("mixed", a * c);
  return s;
}
KDAGEN_SPEC(ledger, ledger)
