// SPDX-License-Identifier: Apache-2.0
// A made-up spec that alternates between rows and columns: a scan down the columns, a row norm of it, a row scalar
// scanned back up, a chunk value used inside, parameters over {d} and over {h}, values used several times.
#include <kdagen/kdagen.h>
using namespace kdagen;

static Spec zigzag(const Options& o) {
  Spec s("zigzag", "column, row, column and chunk phases in one spec", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Constant eps = o.number("eps", 1e-3, 0, 1);
  Value x = s.input("x", {t, h, d}), w = s.input("w", {t, h});
  Value gain = s.param("gain", {d}), rate = s.param("rate", {h});

  Value xs = s.let("xs", cumsum(tanh(x), t));                       // columns
  Value u = s.let("u", xs * rsqrt(mean(xs * xs, d) + eps) * gain);  // rows
  Value r = s.let("r", sum(u * x, d) * sigmoid(rate * w));          // a scalar a row
  Value back = s.let("back", cumsum(r, t, {.exclusive = true, .reverse = true}));
  Value top = s.let("top", total(u, t) * 0.125);  // a value a chunk, used inside it
  s.output("y", u * tanh(back) + relu(top - u));
  s.output("r_out", r + back);
  s.output("top_out", top).dtype(f32);
  return s;
}
KDAGEN_SPEC(zigzag, zigzag)
