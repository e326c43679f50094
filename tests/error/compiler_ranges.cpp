// SPDX-License-Identifier: Apache-2.0
// Exponents that cannot be proven are refused, with the line, the bound and what would pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/analysis/anchors.h"
#include "codegen/analysis/ranges.h"
#include "kdagen/error.h"
#include "tests/common/specs.h"

namespace kdagen {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::OptionTexts;

/// x * 2^(sign*G), G the sum over the chunk of bound*log2e*sigmoid(gate); sign 0: x*2^(total - G).
struct Decay {
  int sign;
  const char* anchor = "none";
  Spec operator()(const Options& o) const {
    Spec s("decay", "x 2^G", o);
    Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
    Constant bound = o.number("bound", -5, -1e4, 0);
    Value x = s.input("x", {t, h, d}), gate = s.input("gate", {t, h, d});
    Value g = s.let("g", bound * log2e * sigmoid(gate)), G = s.let("G", cumsum(g, t));
    s.output("y", x * rsqrt(sum(x * x, d) + 1e-6) *
                      exp2(sign == 0  ? total(g, t) - G
                           : sign > 0 ? G
                                      : -G))
        .anchor(anchor);
    return s;
  }
};

std::string refusal(const std::function<Spec(const Options&)>& make, OptionTexts options = {}, bool backward = false) {
  mlir::MLIRContext context;
  try {
    CompileOptions compile_options = take_compile_options(options);
    auto forward = import_graph(make(Options(options)).graph(), context);
    place_anchors(only_kernel(*forward));
    auto kernel = backward ? derive(only_kernel(*forward), compile_options)
                           : prepare_forward(only_kernel(*forward), compile_options);
    require_proven_ranges(only_kernel(*kernel));
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

// T001
TEST(RangeRefusal, InverseDecayUpToTheLimit) {
  for (bool backward : {false, true}) {
    for (auto bound : {"-5", "-5.5", "-5.54"}) EXPECT_EQ(refusal(Decay{-1}, {{"bound", bound}}, backward), "") << bound;
    for (auto bound : {"-5.56", "-6"}) EXPECT_NE(refusal(Decay{-1}, {{"bound", bound}}, backward), "") << bound;
    EXPECT_NE(refusal(Decay{-1}, {{"chunk", "24"}}, backward), "");
    EXPECT_EQ(refusal(Decay{-1}, {{"chunk", "64"}, {"bound", "-1.386"}}, backward), "");
    EXPECT_NE(refusal(Decay{-1}, {{"chunk", "64"}, {"bound", "-1.387"}}, backward), "");
  }
}

TEST(RangeRefusal, NamesWhatWouldPass) {
  std::string message = refusal(Decay{-1}, {{"chunk", "64"}});
  EXPECT_THAT(message, AllOf(HasSubstr("compiler_ranges.cpp:"), HasSubstr(": error: 2^(-G) may overflow"),
                             HasSubstr("461.66"), HasSubstr("limit 128"), HasSubstr("chunk=16 (limit 17)"),
                             HasSubstr("bound >= -1.364"), HasSubstr("64 rows")));
  EXPECT_THAT(message, Not(HasSubstr("static anchor"))) << "half of 461 is still too much";
  EXPECT_THAT(message, HasSubstr("anchors by sub-chunk on the output")) << "half of 16 rows is 58";
  EXPECT_THAT(refusal(Decay{-1}, {{"chunk", "32"}}), HasSubstr("static anchor"));
}

TEST(RangeRefusal, DecayNeedsNoBound) {
  EXPECT_EQ(refusal(Decay{1}, {{"chunk", "128"}, {"bound", "-100"}}), "");
  EXPECT_EQ(refusal(Decay{0}, {{"chunk", "128"}, {"bound", "-100"}}), "");
  EXPECT_EQ(refusal(Decay{0}, {{"chunk", "128"}, {"bound", "-100"}}, true), "");
  EXPECT_EQ(refusal(Decay{0}, {{"chunk", "128"}, {"bound", "-100"}, {"save", "G"}}, true), "")
      << "G is read, the total is not";
}

TEST(RangeRefusal, StaticAnchorDoublesTheRange) {
  EXPECT_EQ(refusal(Decay{-1, "static"}, {{"chunk", "32"}}), "");
  EXPECT_EQ(refusal(Decay{-1, "static"}, {{"chunk", "32"}}, true), "");
  EXPECT_NE(refusal(Decay{-1, "static"}, {{"chunk", "64"}}), "");
}

TEST(RangeRefusal, AnchorsBySubchunkServeAnyChunk) {
  for (bool backward : {false, true})
    for (auto chunk : {"24", "32", "64", "128"}) {
      for (int sign : {-1, 1}) EXPECT_EQ(refusal(Decay{sign, "subchunk"}, {{"chunk", chunk}}, backward), "") << chunk;
      EXPECT_EQ(refusal(Decay{-1, "subchunk"}, {{"chunk", chunk}, {"bound", "-10.87"}}, backward), "") << chunk;
    }
}

// Whatever the refusal advises passes.
TEST(RangeRefusal, AdviceOnAnchorsBySubchunkPasses) {
  EXPECT_THAT(refusal(Decay{-1, "subchunk"}), AllOf(HasSubstr("compiler_ranges.cpp:"), HasSubstr("one sub-chunk of 16"),
                                                    HasSubstr("pass anchor static")));
  EXPECT_EQ(refusal(Decay{-1, "static"}), "");
  const std::string strong = refusal(Decay{-1, "subchunk"}, {{"chunk", "64"}, {"bound", "-12"}});
  EXPECT_THAT(strong, AllOf(HasSubstr("may overflow: the exponent reaches 139.5"), HasSubstr("bound >= -10.3"),
                            Not(HasSubstr("chunk=")), Not(HasSubstr("a static anchor"))));
  EXPECT_EQ(refusal(Decay{-1, "subchunk"}, {{"chunk", "64"}, {"bound", "-10.37"}}), "");
  const std::string none = refusal(Decay{-1}, {{"chunk", "64"}, {"bound", "-10.7"}});
  EXPECT_THAT(none, HasSubstr("anchors by sub-chunk on the output"));
  EXPECT_EQ(refusal(Decay{-1, "subchunk"}, {{"chunk", "64"}, {"bound", "-10.7"}}), "");
  EXPECT_THAT(refusal(Decay{-1}, {{"chunk", "64"}, {"bound", "-12"}}), Not(HasSubstr("anchor")));
}

/// The largest chunk whose dk was measured to be right to 1e-5 with every gate at its bound, by lower_bound -5 .. -1
/// and gradients of size 1, 1e-3, 1e-6, 1e-9. Cells within one row of it may be judged either way.
struct MeasuredLimits {
  const char* anchor;
  bool ftz;
  int largest[5][4];
};
const MeasuredLimits measured_limits[] = {
    {"none", true, {{15, 14, 12, 11}, {19, 17, 15, 14}, {25, 23, 21, 18}, {39, 35, 31, 28}, {78, 69, 63, 55}}},
    {"none", false, {{17, 16, 15, 14}, {22, 20, 19, 17}, {29, 28, 25, 23}, {44, 42, 38, 35}, {87, 84, 77, 70}}},
    {"static", true, {{31, 28, 25, 22}, {39, 35, 31, 28}, {51, 47, 41, 38}, {77, 69, 63, 55}, {155, 140, 128, 113}}},
    {"static", false, {{35, 33, 30, 28}, {44, 42, 38, 35}, {59, 56, 51, 47}, {87, 84, 77, 70}, {177, 170, 155, 142}}}};

TEST(RangeReport, HeadroomAgreesWithWhatWasMeasured) {
  const double scales[] = {1, 1e-3, 1e-6, 1e-9};
  int cells = 0;
  for (const MeasuredLimits& limits : measured_limits)
    for (int bound = 0; bound < 5; ++bound)
      for (int chunk : {16, 32, 64}) {
        mlir::MLIRContext context;
        OptionTexts options = {{"chunk", std::to_string(chunk)}, {"bound", std::to_string(bound - 5)}};
        auto forward = import_graph(Decay{-1, limits.anchor}(Options(options)).graph(), context);
        place_anchors(only_kernel(*forward));
        auto kernel = prepare_forward(only_kernel(*forward), {});
        for (int scale = 0; scale < 4; ++scale) {
          int largest = limits.largest[bound][scale];
          if (std::abs(chunk - largest) <= 1) continue;
          bool refused = false;
          for (const RangeEntry& entry : range_report(only_kernel(*kernel), {scales[scale], limits.ftz}))
            refused |= entry.verdict == "refused";
          EXPECT_EQ(refused, chunk > largest) << limits.anchor << (limits.ftz ? " ftz" : "") << " chunk " << chunk
                                              << " lower_bound " << bound - 5 << " gradients " << scales[scale];
          ++cells;
        }
      }
  EXPECT_EQ(cells, 227);
}

Spec unbounded(const Options& o) {
  Spec s("unbounded", "x 2^-G, softplus gate", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value x = s.input("x", {t, h, d}), gate = s.input("gate", {t, h, d});
  Value G = s.let("G", cumsum(-softplus(gate), t));
  s.output("y", x * exp2(-G));
  return s;
}

TEST(RangeRefusal, AnchorsNeedABoundInsideASubchunk) {
  auto make = [](const Options& o) {
    Spec s("unbounded", "x 2^-G, softplus gate", o);
    Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
    Value x = s.input("x", {t, h, d}), gate = s.input("gate", {t, h, d});
    s.output("y", x * exp2(-s.let("G", cumsum(-softplus(gate), t)))).anchor("subchunk");
    return s;
  };
  EXPECT_THAT(refusal(make, {{"chunk", "64"}}), AllOf(HasSubstr("output 'y' cannot be anchored"),
                                                      HasSubstr("G has no bounds inside a sub-chunk of 16 rows"),
                                                      HasSubstr("bound the gate, or store the exponent itself")));
}

// T002
TEST(RangeRefusal, UnboundedGateNamesFormsThatPass) {
  EXPECT_THAT(refusal(unbounded), AllOf(HasSubstr("no upper bound"), HasSubstr("bounds(lower, upper) on gate"),
                                        HasSubstr("2^(total - cumsum)")));
}

/// x * 2^-G of a gate that no option bounds: declared (in log2 units), or a number times a sigmoid.
struct Numbers {
  bool declared;
  double lower;
  bool clamped = false;
  Spec operator()(const Options& o) const {
    Spec s("numbers", "x 2^-G", o);
    Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
    Value x = s.input("x", {t, h, d});
    Tensor gate = s.input("gate", {t, h, d});
    if (declared) gate.bounds(lower, 0);
    Value g = s.let("g", declared  ? gate * 1.0
                         : clamped ? clamp(-9.0 * sigmoid(gate), lower, 0.0)
                                   : -9.0 * sigmoid(gate));
    s.output("y", x * exp2(-cumsum(g, t)));
    return s;
  }
};

// What is advised passes; a thousandth more does not leave room.
TEST(RangeRefusal, BoundsInTheUnitsOfTheGate) {
  EXPECT_THAT(refusal(Numbers{true, -9}), HasSubstr("bounds(-7.874, 0) on gate"));
  EXPECT_EQ(refusal(Numbers{true, -7.874}), "");
  EXPECT_THAT(refusal(Numbers{true, -9}, {{"chunk", "64"}}), HasSubstr("bounds(-1.968, 0) on gate"));
  EXPECT_EQ(refusal(Numbers{true, -1.968}, {{"chunk", "64"}}), "");
  EXPECT_THAT(refusal(Numbers{false, 0}),
              HasSubstr("clamp(g, -7.874, 0), or a factor that keeps it there (log2 units a row)"));
  EXPECT_EQ(refusal(Numbers{false, -7.874, true}), "");
  EXPECT_THAT(refusal(Decay{-1}, {{"chunk", "64"}}), Not(HasSubstr("clamp("))) << "an option serves";
}

// T003
TEST(RangeRefusal, Fp16OutputOfAGrowingFactor) {
  EXPECT_THAT(refusal(Decay{-1}, {{"out", "fp16"}}),
              AllOf(HasSubstr("fp16"), HasSubstr("65504"), HasSubstr("out.y=bf16")));
  EXPECT_EQ(refusal(Decay{1}, {{"out", "fp16"}}), "");
  EXPECT_EQ(refusal(Decay{-1}, {{"out", "fp16"}, {"bound", "-0.6"}}), "") << "2^13.9 fits";
}

TEST(RangeRefusal, PlainExpOfUnboundedInput) {
  auto make = [](bool bounded) {
    return [=](const Options& o) {
      Spec s("plain", "e^x", o);
      Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
      Tensor x = s.input("x", {t, h, d});
      if (bounded) x.bounds(-80, 80);
      s.output("y", exp(x));
      return s;
    };
  };
  EXPECT_NE(refusal(make(false)), "");
  EXPECT_EQ(refusal(make(true)), "");
}

TEST(RangeRefusal, SoftmaxAndParameterExponentialsPass) {
  EXPECT_EQ(refusal([](const Options& o) {
              Spec s("soft", "softmax", o);
              Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
              Value x = s.input("x", {t, h, d}), a = s.param("a", {h});
              Value z = exp(a) * x, e = exp(z - max(z, d));
              s.output("y", e / sum(e, d));
              return s;
            }),
            "");
}

}  // namespace
}  // namespace kdagen
