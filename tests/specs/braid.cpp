// SPDX-License-Identifier: Apache-2.0
// A made-up spec with what no shipped one has: a scan up the columns, its neighbour row, the last row, a sum along
// the row, a clamp, two row scalars scanned both ways, and parameters over {h, d}, {d} and {}.
#include <kdagen/kdagen.h>
using namespace kdagen;

static Spec braid(const Options& o) {
  Spec s("braid", "scans in both directions, neighbours and row scalars", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Constant eps = o.number("eps", 1e-3, 0, 1);
  Value left = s.input("left", {t, h, d}), right = s.input("right", {t, h, d}), weight = s.input("weight", {t, h});
  Value tilt = s.param("tilt", {h, d}), bend = s.param("bend", {d}), lift = s.param("lift", {});

  Value rising = s.let("rising", cumsum(silu(left * tilt), t, {.exclusive = true, .reverse = true}));
  Value unit = s.let("unit", l2norm(rising + right, d, eps));
  Value step = s.let("step", unit - shift(unit, t, 1, 0.0));
  Value peak = s.let("peak", sum(step * bend, d));
  Value level = s.let("level", cumsum(peak * sigmoid(weight), t) + lift);
  Value ahead = s.let("ahead", cumsum(clamp(level, -2.0, 2.0), t, {.exclusive = true}));
  Value final_row = s.let("final_row", last(rising, t));
  s.output("woven", unit * level + tanh(final_row) * right);
  s.output("ahead_out", ahead * 0.25).dtype(f32);
  s.output("final_out", final_row + total(step, t)).dtype(f32);
  return s;
}
KDAGEN_SPEC(braid, braid)
