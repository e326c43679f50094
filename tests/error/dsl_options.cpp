// SPDX-License-Identifier: Apache-2.0
#include "tests/error/dsl_expect.h"

using namespace kdagen;
using kdagen::test::error_of;

namespace {

void sample(Spec& s, const Options& o, Axis t, Axis h, Axis d) {
  const Constant bound = o.number("bound", -5, -100, 0), gain = o.number("gain", 1), floor = o.number("floor", 0, 0);
  o.choice("mode", "raw", {"raw", "fused"});
  o.integer("taps", 3, 1, 8);
  s.output("y", s.input("x", {t, h, d}) * bound * gain * floor);
  s.output("z", s.input("w", f32, {t, h, d})).dtype(f32);
}

std::string refusal(const std::string& name, const std::string& value) {
  return error_of<UsageError>(sample, {{name, value}});
}

}  // namespace

TEST(OptionErrors, ValuesOutOfRangeSayWhatPasses) {
  EXPECT_EQ(refusal("bound", "0.5"), "option bound=0.5: pass a number from -100 to 0");
  EXPECT_EQ(refusal("floor", "-1"), "option floor=-1: pass a number of at least 0");
  EXPECT_EQ(refusal("gain", "much"), "option gain=much: pass a number (any finite number)");
  EXPECT_EQ(refusal("taps", "9"), "option taps=9: pass an integer from 1 to 8");
  EXPECT_EQ(refusal("mode", "fusd"), "option mode=fusd: pass one of raw, fused (did you mean fused?)");
  EXPECT_EQ(refusal("chunk", "20"), "option chunk=20: pass a multiple of 8 from 8 to 128");
  EXPECT_EQ(refusal("dim", "260"), "option dim=260: pass a multiple of 4 from 16 to 256");
  EXPECT_EQ(refusal("dtype", "bf61"), "option dtype=bf61: pass bf16, fp16 or f32");
  EXPECT_EQ(refusal("out.y", "i8"), "option out.y=i8: pass bf16, fp16 or f32");
}

TEST(OptionErrors, NumbersAreWholeFiniteAndFit) {
  for (const char* text : {"", " 1", "1 ", "1x", "0x1", "nan", "inf", "-inf", "1e999", "1,5", "++1"})
    EXPECT_EQ(refusal("gain", text), std::string("option gain=") + text + ": pass a number (any finite number)");
  for (const char* text : {"", "3.0", "3x", "99999999999999999999", "0x3"})
    EXPECT_EQ(refusal("taps", text), std::string("option taps=") + text + ": pass an integer from 1 to 8");
  EXPECT_EQ(refusal("chunk", "18446744073709551632"),
            "option chunk=18446744073709551632: pass a multiple of 8 from 8 to 128");
}

TEST(OptionErrors, UnknownNames) {
  EXPECT_THAT(refusal("bounds", "1"),
              testing::StartsWith(
                  "option bounds=1: sample has no option bounds (did you mean bound?); its options are chunk, "));
  EXPECT_THAT(refusal("chnk", "16"), testing::HasSubstr("(did you mean chunk?)"));
  EXPECT_THAT(refusal("zzz", "1"), testing::StartsWith("option zzz=1: sample has no option zzz; its options are "));
  EXPECT_EQ(refusal("dtype.xx", "f32"), "option dtype.xx: xx is not an input of sample with a free type; these are x");
  EXPECT_EQ(refusal("dtype.w", "bf16"), "option dtype.w: w is not an input of sample with a free type; these are x");
  EXPECT_EQ(refusal("out.z", "bf16"), "option out.z: z is not an output of sample with a free type; these are y");
}

TEST(OptionErrors, DeclarationsAreTheSpecsFault) {
  EXPECT_REFUSED(o.number("a", 2, 0, 1), "option a: the default 2 is not in the range from 0 to 1");
  EXPECT_REFUSED(o.number("a", NAN), "option a: the default nan is not in the range (any finite number)");
  EXPECT_REFUSED(o.integer("a", 0, 1, 2), "option a: the default 0 is not in 1 to 2");
  EXPECT_REFUSED(o.choice("a", "c", {"d"}), "option a: the default c is none of d");
  EXPECT_REFUSED(o.default_chunk(12), "default_chunk(12): pass a multiple of 8 from 8 to 128");
  EXPECT_REFUSED(o.default_chunk(64),
                 "default_chunk(64) comes after the chunk has been asked for; put it in front of the spec's axes");
  EXPECT_REFUSED(o.number("a", 1); o.number("a", 2), "option a is declared twice, differently; declare it once");
  EXPECT_REFUSED(o.number("chunk", 16), "option chunk is common to all specs; give the spec's own another name");
  EXPECT_REFUSED(o.number("ln2", 1), "option ln2: the name is a constant's; choose another");
  EXPECT_REFUSED(s.output("z", x).anchor("sometimes"), "anchor of z: \"sometimes\" is none of none, static, subchunk");
  EXPECT_REFUSED(s.output("z", x).cotangent_unit(0.0), "cotangent_unit of z: the unit is zero");
}
