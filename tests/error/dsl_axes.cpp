// SPDX-License-Identifier: Apache-2.0
#include "tests/error/dsl_expect.h"

using namespace kdagen;

// T110
TEST(AxisErrors, ReductionsNeedTheAxis) {
  EXPECT_REFUSED(sum(w, d), "sum over d: w (line LINE) has the axes {t, h}; reduce over one of these");
  EXPECT_REFUSED(max(x, Axes{}), "max_reduce over no axis; name at least one, for instance sum(x, d)");
  EXPECT_REFUSED(sum(x, h), "sum over the head axis h: a block sees one head only; reduce over rows or features");
  EXPECT_REFUSED(mean(x, t),
                 "mean over t: only the feature axis has a length known when compiling; over rows write "
                 "sum(x, t) / (last(index(t), t) + 1.0)");
}

// T110
TEST(AxisErrors, ScansRunAlongRows) {
  EXPECT_REFUSED(cumsum(x, d), "cumsum over d: it runs along the row axis only");
  EXPECT_REFUSED(total(x, d), "total over d: it runs along the row axis only; sum reduces over any axis");
  EXPECT_REFUSED(cumsum(p, t), "cumsum over t: p (line LINE) has the axes {h, d}; it must have t");
  EXPECT_REFUSED(last(sum(x, t), t), "last over t: the value of line LINE has the axes {h, d}; it must have t");
  EXPECT_REFUSED(shift(x, t, 16), "shift by 16 rows leaves nothing of a chunk of 16; stay below the chunk");
  EXPECT_REFUSED(shift(x, t, -9000000000000000000),
                 "shift by -9000000000000000000 rows leaves nothing of a chunk of 16; stay below the chunk");
  EXPECT_REFUSED(shift(x, t, 1, NAN), "shift's fill is not a finite float");
  EXPECT_REFUSED(index(h), "index over the head axis h is not supported; pass a param over {h} with the numbers");
  EXPECT_REFUSED(index(Axis()), "index over an Axis that no Spec made; use rows(...) or features(...)");
}

TEST(AxisErrors, Declarations) {
  EXPECT_REFUSED(s.rows("u"), "axis u: the spec already has the rows axis t; each spec has one axis of each kind");
  EXPECT_REFUSED(s.features("n"), "the axis name n is taken: b is the batch row, n the chunk's number; choose another");
  EXPECT_REFUSED(s.heads("3"),
                 "the axis name \"3\" is not an identifier; start with a letter and go on with letters, digits or _");
  EXPECT_REFUSED(s.param("bad", {t, d}),
                 "param bad carries the row axis t; parameters are shared by all tokens, so make it an input");
  EXPECT_REFUSED(s.input("bad", {t, d}),
                 "input bad has the axes {t, d}; an input has a row for every token and head, {t, h} or "
                 "{t, h, d}; what tokens share is a param");
  EXPECT_REFUSED(s.input("bad", {t, h, h}), "input bad lists h twice");
  EXPECT_REFUSED(s.param("bad", {Axis()}), "param bad uses an Axis that no Spec made; use rows, heads or features");
}

TEST(AxisErrors, Outputs) {
  EXPECT_REFUSED(s.output("z", p * 2), "output z depends on no token; an output needs an input among its operands");
  EXPECT_REFUSED(s.output("z", 1.0), "output z depends on no token; an output needs an input among its operands");
  EXPECT_REFUSED(s.output("z", index(t) * index(d)),
                 "output z has the axes {t, d} and lacks the head axis; outputs are over "
                 "{t, h, d}, {t, h}, {h, d} or {h}");
}
