// SPDX-License-Identifier: Apache-2.0
// What random specs have found in references, bounds and cotangents: right texts that were judged wrong.
#include <gtest/gtest.h>

#include "tests/fuzz/checked.h"

namespace kdagen {
namespace {

using test::passes;

// In float64 too 1 - s is 0 at 40: the unrewritten slope s*(1 - s) was no reference for the rewritten one.
TEST(FoundByRandomSpecs, ASaturatedSigmoid) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}).bounds(25, 40);
        s.output("y", sigmoid(x)).dtype(f32);
      },
      "f32"));
}

// A bf16 number may be a clamp's end itself, where a difference sees half of each side.
TEST(FoundByRandomSpecs, AnInputOnAKink) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}).bounds(0.25, 0.25 + 0x1p-8);
        s.output("y", clamp(x, -0.25, 0.25 + 0x1p-9)).dtype(f32);
      },
      "bf16"));
}

// In float32 the tanh of all of these is 1, and the first of them is no more the largest than the last.
TEST(FoundByRandomSpecs, ALargestElementThatRoundingDecides) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}).bounds(9, 10);
        s.output("y", max(tanh(x), d)).dtype(f32);
      },
      "f32"));
}

// softmax^4 is 2^-1500 here, and cotangents that should make up for it were infinite.
TEST(FoundByRandomSpecs, AnOutputThatVanishes) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        Value y = softmax(100.0 * x, d);
        s.output("y", y * y * y * y).dtype(f32);
      },
      "f32"));
}

// The same number twice, by mathematics: in float64 too rounding decides which is the smaller.
TEST(FoundByRandomSpecs, AComparisonOfEqualNumbers) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        Value a = l2norm(x * x * x, d, 1e-3), b = a * exp2(last(a, t) - a) * exp2(a - last(a, t));
        s.output("y", select(b < a, b, 3.0 * a)).dtype(f32);
      },
      "f32"));
}

// v < v is false however well v is known; the softmax of equal numbers has no gradient at all.
TEST(FoundByRandomSpecs, AComparisonOfOneNumberWithItself) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        Value a = x * x, b = sum(a * a, d) * 0.00048828125;
        s.output("y", softmax(select(a < a, a, b), d)).dtype(f32);
        s.output("z", select(equal(a - a, 0.0), b, x)).dtype(f32);
      },
      "f32"));
}

// 2^-x of a number that rounds to one or the other neighbour in bf16 is off by more than its slope says.
TEST(FoundByRandomSpecs, AnExponentialOfARoundedNumber) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        s.output("y", exp2(-round(exp2(sigmoid(x)), bf16))).dtype(f32);
      },
      "f32"));
}

// The two largest of a column are nearly equal: a difference may not change over to the other one.
TEST(FoundByRandomSpecs, TwoLargestElements) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}).bounds(1, 1 + 0x1p-16);
        s.output("y", max(x * x, {t, d}) + max(x, t) * x).dtype(f32);
      },
      "f32"));
}

// A softmax of large numbers has elements of any size; to a cotangent of 2^120 the backward's next factor was too much.
TEST(FoundByRandomSpecs, CotangentsOfVanishingOutputs) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), y = s.input("y", {t, h, d}).bounds(0.25, 2.0);
        Value e = exp2(y * exp2(y));
        s.output("z", softmax(x * e, d) * e).dtype(f32);
      },
      "f32"));
}

// A weight that vanishes beside an exponential that is stored with an anchor: cotangents of 2^100 times the anchor's
// 2^46.
TEST(FoundByRandomSpecs, CotangentsOfVanishingAnchoredOutputs) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value gate = s.input("gate", {t, h}).bounds(-4.0, 0.0);
        Value g = cumsum(gate, t, {.exclusive = true});
        s.output("y", softmax(silu((gate * ln2 + s.param("p", {d})) * g), t) * exp2(g)).anchor("static");
      },
      "f32", {{"chunk", "24"}}));
}

// A norm of a row that is nearly 0 bends within the first step, and at the next one rounding is above what is asked.
TEST(FoundByRandomSpecs, ANormThatBendsWithinAStep) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), p = s.param("p", {h}).bounds(0.004, 0.0048);
        Value unit = l2norm(index(d) * p, d, 1e-7);
        s.output("y", x * (unit * unit)).dtype(f32);
      },
      "f32"));
}

// Equal numbers of a row are sums whose last digits differ in float32: which is the largest, rounding decides.
TEST(FoundByRandomSpecs, ATieThatRoundingDecides) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}).bounds(-4.0, 4.0), g = cumsum(-0.25 * sigmoid(x), t);
        s.output("y", max(g - shift(g, t, 1) + x, d)).dtype(f32);
      },
      "bf16", {{"dim", "128"}}));
}

// An output beside it has no bound of its rounding: then the last digits of the others are noise all the same. A number
// that is added to all of a softmax's has no gradient, but rounding has.
TEST(FoundByRandomSpecs, NoiseBesideAnOutputWithoutABound) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}).bounds(-0.5, 0.5), p = s.param("p", {h, d}), r = s.param("r", {h});
        Value g = round(x * exp2(-x), bf16), rest = total(g, t) - cumsum(g, t);
        s.output("y", sum(x * softmax(r + p, d), d)).dtype(f32);
        s.output("z", x * exp2(-l2norm(64.0 * rest, d, 1e-3))).dtype(f32);
      },
      "f32", {{"dim", "128"}}));
}

// A product with a power of two is exact, but not where it leaves the normal numbers, and its error grows again.
TEST(FoundByRandomSpecs, APowerOfTwoTimesASubnormal) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        Value small = sum(x * x, {t, d}) * 0x1p-60;
        s.output("y", small * 0x1p-60 * 0x1p-30 * (8.0 * x)).dtype(f32);
      },
      "f32"));
}

}  // namespace
}  // namespace kdagen
