// SPDX-License-Identifier: Apache-2.0
// NaN terms beside fixed-point sums: where they are, how many, and that they change no value.
#include <cmath>

#include <gtest/gtest.h>

#include "codegen/ir/Scalar.h"
#include "codegen/pipeline.h"
#include "codegen/schedule/normalise.h"
#include "kdagen/registry.h"
#include "tests/common/kernels.h"

#ifdef KDAGEN_HAS_KDA_K1
namespace kdagen {
namespace {
using evaluator::Arrays;
using evaluator::Instance;
using Settings = std::map<std::string, std::string>;

Compilation compiled(Direction direction, Settings settings) {
  for (const RegisteredSpec& spec : registered_specs())
    if (spec.name == "kda_k1") {
      CompileOptions options = take_compile_options(settings);
      return Compilation(spec_graph(spec, Options(settings)), direction, options);
    }
  throw UsageError("kda_k1 is missing");
}

/// -0*|sum|: the terms of a normalised kernel.
std::vector<kda::MulOp> terms_of(kda::KernelOp kernel) {
  std::vector<kda::MulOp> terms;
  for (auto op : kernel.block().getOps<kda::MulOp>()) {
    auto scalar = kda::constant_scalar(op.getB());
    if (scalar && scalar->value() == 0 && std::signbit(scalar->value())) terms.push_back(op);
  }
  return terms;
}

int additions_to_exponentials(kda::KernelOp kernel) {
  int count = 0;
  for (auto op : kernel.block().getOps<kda::AddOp>()) count += bool(op.getA().getDefiningOp<kda::Exp2Op>());
  return count;
}

TEST(NanTerms, OneAColumn) {
  for (const char* operands : {"exact", "rounded"})
    for (Direction direction : {Direction::fwd, Direction::bwd}) {
      Compilation program = compiled(direction, {{"anchor", "static"}, {"operands", operands}});
      schedule::normalise(program.module(Stage::rewritten));
      kda::KernelOp kernel = program.kernel(Stage::rewritten);
      auto terms = terms_of(kernel);
      ASSERT_EQ(terms.size(), 1u);
      EXPECT_FALSE(kda::has_role(terms[0].getResult(), kda::AxisRole::Rows));
      EXPECT_TRUE(kda::has_role(terms[0].getResult(), kda::AxisRole::Feature));
      // backward: 2^g_c has it, and with it whatever the other exponentials meet. Forward: k_i and k_r have no 2^g_c in
      // them.
      EXPECT_EQ(additions_to_exponentials(kernel), 1);
      int products = 0;
      for (auto op : kernel.block().getOps<kda::FmaOp>()) products += op.getC() == terms[0].getResult();
      EXPECT_EQ(products, direction == Direction::fwd ? 2 : 0);
    }
}

TEST(NanTerms, FloatSumsNeedNone) {
  for (Direction direction : {Direction::fwd, Direction::bwd}) {
    Compilation program = compiled(direction, {{"scan", "float"}});
    schedule::normalise(program.module(Stage::rewritten));
    EXPECT_TRUE(terms_of(program.kernel(Stage::rewritten)).empty());
  }
}

/// Bit for bit: float32 with terms against float32 without.
TEST(NanTerms, ChangeNoNumber) {
  Settings settings = {{"scan", "fixed"}, {"dim", "16"}, {"anchor", "static"}};
  Compilation with = compiled(Direction::fwd, settings), without = compiled(Direction::fwd, settings);
  schedule::normalise(with.module(Stage::rewritten));
  schedule::normalise(without.module(Stage::rewritten));
  for (kda::MulOp term : terms_of(without.kernel(Stage::rewritten)))
    for (mlir::Operation* user : llvm::make_early_inc_range(term->getUsers())) {
      mlir::OpBuilder raw(user);
      mlir::Value plain = user->getOperand(0);
      if (auto fma = mlir::dyn_cast<kda::FmaOp>(user))
        plain = raw.create<kda::MulOp>(fma.getLoc(), fma.getType(), fma.getA(), fma.getB());
      user->getResult(0).replaceAllUsesWith(plain);
      user->erase();
    }
  Instance instance = Instance::packed_row({19, 0, 5}, 2, 2);
  Arrays inputs = kdagen::testing::draw_inputs(with.kernel(Stage::rewritten), instance, 3);
  evaluator::EvaluateOptions options;
  options.arithmetic = evaluator::Arithmetic::f32;
  auto one = evaluator::evaluate(with.kernel(Stage::rewritten), inputs, instance, options).tensors;
  auto other = evaluator::evaluate(without.kernel(Stage::rewritten), inputs, instance, options).tensors;
  ASSERT_FALSE(one.empty());
  for (const auto& [name, tensor] : one) EXPECT_EQ(tensor.values, other.at(name).values) << name;
}

}  // namespace
}  // namespace kdagen
#endif
