// SPDX-License-Identifier: Apache-2.0
// What random specs have found in the compiler, each as small as it became.
#include <gtest/gtest.h>

#include "tests/fuzz/checked.h"

namespace kdagen {
namespace {

using test::passes;

// A saved maximum is a float32 number that no element of the float64 reference equals: its gradient was 0.
TEST(FoundByRandomSpecs, ASavedMaximum) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        Value most = s.let("most", max(x * x, t));
        s.output("y", most).dtype(f32);
        s.output("z", x * most).dtype(f32);
      },
      "f32", {{"save", "most"}}));
}

// A factor that varies along the row, v's own exponential, was taken into the row's sum of a norm's gradient.
TEST(FoundByRandomSpecs, ANormOfWhatAnExponentialMultiplies) {
  for (const char* type : {"f32", "bf16"}) {
    EXPECT_TRUE(passes(
        [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
          Value x = s.input("x", {t, h, d});
          Value p = s.param("p", {h, d});
          Value v = x * exp2(sigmoid(x));
          s.output("y", v * rmsnorm(exp(tanh(p)) * (v + p), d));
        },
        type));
  }
}

// Terms that cancel hid that a sum was computed from the value that was to be built of it.
TEST(FoundByRandomSpecs, ADecayOfADifferenceOfEqualGates) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        Value a = x * x, b = a * a;
        Value g = cumsum(-0.25 * sigmoid(b), t);
        Value v = b * detach(g), u = v * v * 0x1p-18, w = u * u;
        Value zero = g - g;
        s.output("y", w);
        s.output("z", zero);
        s.output("u", w * exp2(zero * zero) * exp(-g) * 0x1p-10).dtype(f32);
      },
      "f32"));
}

// An output that a broadcast widens is rounded as the number it repeats.
TEST(FoundByRandomSpecs, ARowNumberForEveryFeature) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h}), p = s.param("p", {h, d});
        s.output("y", exp(tanh(cumsum(x, t))) * exp2(p - detach(p)));
      },
      "bf16"));
}

// What every feature gets alike is no source of a row's gradient.
TEST(FoundByRandomSpecs, ADecayedSumOverTheFeatures) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), z = s.input("z", {t, h}).bounds(-0.1, 0.0), c = cumsum(z, t);
        s.output("y", sum(x * 0.3, d) * exp2(last(c, t) - c));
      },
      "f32"));
}

// A parameter that rows weigh by their number, the same for every head: heads are summed last.
TEST(FoundByRandomSpecs, AParameterByTheRowsNumber) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), p = s.param("p", {d});
        s.output("y", x * softmax(0.125 * index(t) * p, d));
      },
      "bf16", {}, "emulator"));
}

// A tile of 24 rows lies in two warps: its owners cannot add up rows behind a warp's barrier.
TEST(FoundByRandomSpecs, NumbersOfRowsInTwoWarps) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis) {
        Value r = s.input("r", {t, h}), g = -0.25 * sigmoid(r);
        s.output("y", r * exp2(total(g, t) - cumsum(g, t)));
        s.output("z", sum(r * r, t));
      },
      "bf16", {{"chunk", "24"}}, "emulator"));
}

// One number a tile that rows and columns of one sweep use is made once, under one name.
TEST(FoundByRandomSpecs, ANumberOfATileForRowsAndColumns) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), r = s.input("r", {t, h});
        Value number = tanh(sum(x * x, {t, d})) + 2.0, sums = cumsum(x * number * cumsum(r * number, t), t);
        s.output("y", sum(sums * sums, d) * number);
        s.output("z", cumsum(sums * r, t, {.reverse = true}) * number);
      },
      "bf16", {{"chunk", "32"}, {"schedule", "threads=32"}}, "emulator"));
}

// A comparison that rows make and columns ask for, too, travels through shared memory.
TEST(FoundByRandomSpecs, ATruthValueForRowsAndColumns) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), p = s.param("p", {h, d});
        Value smaller = less(x * rsqrt(sum(x * x, d) + 0.5), p);
        s.output("y", sum(select(smaller, x, p), d));
        s.output("z", cumsum(select(smaller, p, x), t));
      },
      "bf16", {}, "emulator"));
}

// Nothing can be divided by a factor of 0: algebra leaves such constants alone.
TEST(FoundByRandomSpecs, AZeroAmongTheFactors) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), z = s.input("z", {t, h, d}).bounds(-0.1, 0.0), p = s.param("p", {d});
        s.output("y", x * exp2(cumsum(z, t)) * (0.0 * ln2));
        s.output("w", z + x * p * 0.0);
      },
      "bf16"));
}

// The derivative of a^2 at 0 is 0, not 0/0.
TEST(FoundByRandomSpecs, APowerOfZero) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        s.output("y", pow(x * x - x * x, 2.0) + x).dtype(f32);
      },
      "f32"));
}

// The gradient of a row scalar that column numbers multiply: the text named an array that it did not have.
TEST(FoundByRandomSpecs, ASumOfColumnNumbers) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value r = s.input("r", {t, h}), x = s.input("x", {t, h, d});
        s.output("y", index(d) * r + x);
        s.output("z", max(index(d), d) * r + sum(index(d), d));
      },
      "f32", {}, "emulator"));
}

// One number of a tile is the same variable in both maps: used once in each, it is used twice.
TEST(FoundByRandomSpecs, OneNumberUsedInRowsAndInColumns) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), r = s.input("r", {t, h}).bounds(-1, 1);
        Value end = exp2(last(r, t));
        s.output("y", x * rsqrt(sum(x * x, d) + 1.0) * (end + 1.0)).dtype(f32);
        s.output("z", cumsum(x, t) + end * 2.0).dtype(f32);
      },
      "f32", {}, "emulator"));
}

// A sum along the rows in the first sweep over a tile's steps, scanned from the last step to the first in the second.
TEST(FoundByRandomSpecs, ARowSumScannedInALaterSweep) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), r = s.input("r", {t, h}).bounds(-1, 1);
        Value shifted = x + cumsum(r, t);
        s.output("y", shifted * rsqrt(sum(shifted * shifted, d) + 1.0)).dtype(f32);
      },
      "f32", {{"schedule", "threads=32"}, {"dim", "24"}, {"chunk", "24"}}, "emulator"));
}

// Of outputs that repeat the same input, one may lie in its memory.
TEST(FoundByRandomSpecs, ThreeOutputsRepeatAnInput) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        for (const char* name : {"y0", "y1", "y2"}) s.output(name, x).dtype(f32);
      },
      "f32", {}, "emulator"));
}

// A box of the last sequence's rows holds rows behind it, which another block clears in an output of the same memory.
TEST(FoundByRandomSpecs, AnOutputInTheMemoryOfItsInput) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d});
        s.output("y", x);
        s.output("z", x * x);
      },
      "bf16", {{"chunk", "32"}, {"schedule", "tiles_per_block=1"}}, "emulator", {.shared = true}));
}

// float32 has 1.5 where float64 has a little less, so their anchors are neighbours; of an exponent that is no sum they
// are -rint(x), which algebra took apart in the backward, and cotangents were restated for the stored numbers no more.
TEST(FoundByRandomSpecs, AnAnchorThatAlgebraTakesApart) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), z = s.input("z", {t, h, d}), e = sigmoid(8.0 * cumsum(x, t)) + 0.5;
        s.output("y", z * exp2(-e)).anchor("subchunk");
      },
      "f32", {{"chunk", "32"}}));
}

// Anchors of a sum of rounded numbers: those of float64 that rounds too, not of float64 that does not.
TEST(FoundByRandomSpecs, AnchorsOfRoundedNumbers) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), z = s.input("z", {t, h, d});
        s.output("y", x * exp2(cumsum(clamp(round(4.0 * z - 64.0, bf16) + 64.0, -4.0, 0.0), t))).anchor("subchunk");
      },
      "f32", {{"chunk", "32"}}));
}

// A difference across a jump says nothing of the branch taken.
TEST(FoundByRandomSpecs, AJumpBesideTheBasePoint) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}).bounds(1, 1 + 0x1p-10);
        s.output("y", select(x < 1 + 0x1p-11, x, x * x + 3.0)).dtype(f32);
      },
      "f32"));
}

// Columns use a parameter's numbers before the tiles, and a row's owners a sum over them: made for columns, they were
// taken for made (a text that does not compile).
TEST(FoundByRandomSpecs, AParametersNumbersForColumnsAndForOwners) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value r = s.input("r", {t, h}), p = s.param("p", {d});
        Value weight = softmax(p, d);
        s.output("y", r * sum(weight * exp(weight), d)).dtype(f32);
        s.output("z", cumsum(weight + (r - detach(r)), t)).dtype(f32);
      },
      "bf16", {}, "emulator"));
}

// A gate far on its small side is summed in 2^-30, and the factor of its sigmoid does not fit there.
TEST(FoundByRandomSpecs, ASmallGateOfALargeFactor) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}).bounds(-9.0, -3.6);
        s.output("y", exp2(cumsum(-5.0 * log2e * sigmoid(x), t))).dtype(f32);
      },
      "f32", {{"scan", "fixed"}}, "emulator"));
}

// A gate that is proven small reaches its limit, and roundings pass it: its text may not leave the limit out.
TEST(FoundByRandomSpecs, ASmallGateAtItsLimit) {
  EXPECT_TRUE(passes(
      [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
        Value x = s.input("x", {t, h, d}), gate = cumsum(-0.25 * sigmoid(0.0 * x), t);
        s.output("y", x * exp2(-cumsum(-0.5 * sigmoid(gate), t, {.exclusive = true}))).dtype(f32);
      },
      "f32", {{"scan", "fixed"}}, "emulator"));
}

}  // namespace
}  // namespace kdagen
