// SPDX-License-Identifier: Apache-2.0
// A made-up spec of values that wait for a cumulative sum and tiles that change sides: what the scheduler keeps in
// registers, and which tiles share a place in shared memory.
#include <kdagen/kdagen.h>
using namespace kdagen;

static Spec held(const Options& o) {
  Spec s("held", "products that wait for a cumulative sum, and a norm between two of them", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  long long apart = o.integer("apart", 0, 0, 1);  // 1: a factor is needed by itself behind the sum
  Value x = s.input("x", {t, h, d}), u = s.input("u", {t, h, d}), v = s.input("v", {t, h, d});

  Value rise = s.let("rise", sigmoid(x)), fall = s.let("fall", tanh(x));
  Value level = s.let("level", cumsum(rise + fall, t) * 0.0625);
  Value mixed = s.let("mixed", level * u + v);
  Value wide = s.let("wide", mixed * rsqrt(mean(mixed * mixed, d) + 1.0));
  Value both = s.let("both", rise * fall);
  s.output("y", level * both).dtype(f32);
  s.output("z", cumsum(wide, t)).dtype(f32);
  if (apart) s.output("w", level * rise).dtype(f32);
  return s;
}
KDAGEN_SPEC(held, held)
