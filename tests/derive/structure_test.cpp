// SPDX-License-Identifier: Apache-2.0
// What a derived kernel reads and writes: names, axes, storage, and what detach and save do to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/diagnostics.h"
#include "codegen/explain/formulas.h"
#include "kdagen/error.h"
#include "tests/common/specs.h"

namespace kdagen {
namespace {
using namespace kda;
using testing::axes_of;
using testing::count;
using testing::Derived;
using ::testing::HasSubstr;
using testing::input_called;
using testing::OptionTexts;
using testing::output_called;

/// A decay chain with every kind of tensor: y = x*2^G, total per chunk in units of ln2, a row scalar passed through.
Spec decay(const Options& o) {
  Spec s("decay", "y = x 2^G", o);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value x = s.input("x", {t, h, d}), gate = s.input("gate", f32, {t, h, d}), bias = s.param("bias", {h, d});
  Value row = s.input("row", {t, h});
  Value g = s.let("g", -1.0 * sigmoid(gate + bias)), G = s.let("G", cumsum(g, t));
  s.output("y", x * exp2(G));
  s.output("total_g", total(g, t)).dtype(f32).cotangent_unit(ln2);
  s.output("row_out", row);
  return s;
}

std::string storage(InputOp input) {
  return module_text(input).find("storage bf16") != std::string::npos ? "bf16"
         : input.getStorage().isF16()                                 ? "fp16"
         : input.getStorage().isF32()                                 ? "f32"
         : input.getStorage().isInteger(8)                            ? "i8"
                                                                      : "?";
}

TEST(Derive, TensorsOfTheBackward) {
  Derived derived(decay);
  KernelOp backward = derived.backward();
  EXPECT_EQ(backward.getDirection(), "bwd");
  for (auto name : {"dy", "dtotal_g", "drow_out"}) {
    ASSERT_TRUE(input_called(backward, name)) << name;
    EXPECT_EQ(input_called(backward, name).getRole(), "cotangent");
    EXPECT_EQ(storage(input_called(backward, name)), "f32");
  }
  EXPECT_EQ(axes_of(input_called(backward, "dtotal_g").getResult()), "b,n,h,d");
  EXPECT_EQ(axes_of(input_called(backward, "drow_out").getResult()), "b,n,t,h");
  EXPECT_FALSE(input_called(backward, "row")) << "the backward does not need it";
  for (auto name : {"dx", "dgate", "drow"}) EXPECT_EQ(output_called(backward, name).getRole(), "gradient") << name;
  EXPECT_TRUE(output_called(backward, "dx").getStorage().isBF16());
  EXPECT_EQ(output_called(backward, "dbias").getRole(), "param_gradient");
  EXPECT_TRUE(output_called(backward, "dbias").getStorage().isF32());
  EXPECT_EQ(axes_of(output_called(backward, "dbias").getValue()), "h,d");
  EXPECT_FALSE(output_called(backward, "y"));
}

TEST(Derive, GradientStorageAndUpstream) {
  Derived derived(decay, {{"grads", "f32"}, {"upstream", "bf16"}, {"upstream.y", "fp16row"}});
  KernelOp backward = derived.backward();
  EXPECT_TRUE(output_called(backward, "dx").getStorage().isF32());
  EXPECT_EQ(storage(input_called(backward, "dtotal_g")), "bf16");
  EXPECT_EQ(storage(input_called(backward, "dy")), "fp16");
  InputOp exponent = input_called(backward, "dy_exp");
  ASSERT_TRUE(exponent);
  EXPECT_EQ(storage(exponent), "i8");
  EXPECT_EQ(axes_of(exponent.getResult()), "b,n,t,h");
}

TEST(Derive, UnitMultipliesTheCotangent) {
  std::string text = formulas(Derived(decay).backward());
  EXPECT_THAT(text, HasSubstr("dtotal_g*ln2")) << text;
}

TEST(Derive, NamesFollowTheForward) {
  std::string text = formulas(Derived(decay).backward());
  EXPECT_THAT(text, HasSubstr("dG = ")) << text;
  EXPECT_THAT(text, HasSubstr("dg = ")) << text;
}

TEST(Derive, UnreachedInputGetsZero) {
  Derived derived([](const Options& o) {
    Spec s("held", "y = detach(x) z", o);
    Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
    Value x = s.input("x", {t, h, d}), z = s.input("z", {t, h, d});
    s.output("y", detach(x) * z);
    return s;
  });
  auto zero = constant_scalar(output_called(derived.backward(), "dx").getValue());
  ASSERT_TRUE(zero);
  EXPECT_EQ(zero->value(), 0.0);
  EXPECT_EQ(count<DetachOp>(derived.backward()), 0);
  EXPECT_EQ(formulas(derived.backward()).find("detach"), std::string::npos);
}

// exp2(x - detach(x)) has the value 1 and the derivative of 2^x: no exponential is left, nor any x to form it.
TEST(Derive, ValueMinusItselfDetachedIsZero) {
  Derived derived([](const Options& o) {
    Spec s("kept", "y = x 2^(G - detach(G))", o);
    Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
    Value x = s.input("x", {t, h, d}), g = s.input("g", f32, {t, h, d});
    Value total_g = total(g, t), G = cumsum(g, t);
    s.output("y", x * exp2((total_g - G) - detach(total_g - G)));  // written out twice
    return s;
  });
  EXPECT_EQ(count<Exp2Op>(derived.backward()), 0);
  EXPECT_FALSE(input_called(derived.backward(), "g"));
  EXPECT_THAT(formulas(derived.backward()), HasSubstr("ln2"));
}

TEST(Derive, SavedValueIsReadInstead) {
  Derived derived(decay, {{"save", "G"}});
  InputOp residual = input_called(derived.backward(), "G");
  ASSERT_TRUE(residual);
  EXPECT_EQ(residual.getRole(), "residual");
  ASSERT_TRUE(residual.getUpper() && residual.getLower());
  EXPECT_EQ(residual.getUpper()->convertToDouble(), 0.0);
  EXPECT_EQ(residual.getLower()->convertToDouble(), -16.0);
  EXPECT_EQ(count<ScanOp>(derived.backward()), 1) << "the adjoint's own";
  auto forward = prepare_forward(derived.forward(), derived.compile_options);
  OutputOp written = output_called(only_kernel(*forward), "G");
  ASSERT_TRUE(written);
  EXPECT_EQ(written.getRole(), "residual");
  EXPECT_TRUE(written.getStorage().isF32());
}

TEST(Derive, TapsOfBothPasses) {
  Derived derived(decay, {}, {"G", "dG"});
  EXPECT_EQ(output_called(derived.backward(), "G").getRole(), "tap");
  EXPECT_EQ(output_called(derived.backward(), "dG").getRole(), "tap");
  EXPECT_THROW(prepare_forward(derived.forward(), derived.compile_options), UsageError) << "the forward has no dG";
}

TEST(Derive, ParameterGradientSumsInStages) {
  std::string text = formulas(Derived(decay).backward());
  EXPECT_THAT(text, HasSubstr("sum_{b,n}(sum_t(")) << text;
}

TEST(Derive, CustomAdjointWins) {
  custom_adjoint("kda.relu", [](Builder& build, mlir::Operation*, mlir::Value dy) {
    return llvm::SmallVector<mlir::Value>{build.mul(dy, build.constant(42.0))};
  });
  Derived derived([](const Options& o) {
    Spec s("ramp", "y = relu(x)", o);
    Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
    s.output("y", relu(s.input("x", {t, h, d})));
    return s;
  });
  custom_adjoint("kda.relu", nullptr);
  EXPECT_THAT(formulas(derived.backward()), HasSubstr("dy*42"));
}

}  // namespace
}  // namespace kdagen
