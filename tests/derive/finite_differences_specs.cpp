// SPDX-License-Identifier: Apache-2.0
// Every shipped spec, with its default options and others, against central differences of its forward; rewritten
// against unrewritten.
#include <cmath>

#include <gtest/gtest.h>

#include "codegen/derive/derive.h"
#include "codegen/evaluator/finite_differences.h"
#include "codegen/import/from_graph.h"
#include "codegen/pipeline.h"
#include "kdagen/registry.h"
#include "tests/common/kernels.h"

namespace kdagen {
namespace {
using evaluator::Arrays;
using evaluator::Instance;
using kdagen::testing::draw_inputs;
using Settings = std::map<std::string, std::string>;

const RegisteredSpec& registered(const std::string& name) {
  for (const RegisteredSpec& spec : registered_specs())
    if (spec.name == name) return spec;
  throw UsageError("no spec is called " + name);
}

void expect_gradients(const std::string& name, Settings settings) {
  std::string text = name;
  for (const auto& [key, value] : settings) text += " " + key + "=" + value;
  SCOPED_TRACE(text);
  mlir::MLIRContext context;
  CompileOptions options = take_compile_options(settings);
  auto module = import_graph(spec_graph(registered(name), Options(settings)), context);
  kda::KernelOp forward = only_kernel(*module);
  auto backward = derive(forward, options);
  int64_t chunk = forward.chunk();
  Instance instance = Instance::packed_row({chunk + 3, 0, 5}, 2, 2);
  Arrays inputs = draw_inputs(forward, instance, 21, -1.2, 1.2), cotangents;
  Arrays exponents = evaluator::output_exponents(forward, inputs, instance);
  for (auto& [cotangent, array] : draw_inputs(only_kernel(*backward), instance, 23, -1, 1)) {
    auto found = exponents.find(cotangent.substr(1));
    if (found == exponents.end() || inputs.count(cotangent)) continue;
    for (size_t i = 0; i < array.values.size(); ++i) array.values[i] *= std::exp2(-found->second.values[i]);
    cotangents[cotangent] = array;
  }
  evaluator::FiniteDifferenceOptions measure;
  measure.elements = 12;
  for (const auto& found :
       compare_with_finite_differences(forward, only_kernel(*backward), inputs, cotangents, instance, measure)) {
    EXPECT_FALSE(!(found.rel_l2 <= 1e-7)) << found.name << ": " << found.rel_l2;
    EXPECT_FALSE(!(found.directional <= 1e-6)) << found.name << ": " << found.directional;
  }
}

/// Inputs in storage precision, and cotangents that make output * cotangent O(1).
Arrays draw_scaled(kda::KernelOp forward, kda::KernelOp kernel, const Instance& instance) {
  Arrays arrays = draw_inputs(forward, instance, 31, -1.2, 1.2);
  Arrays exponents = evaluator::output_exponents(forward, arrays, instance);
  for (auto& [name, array] : draw_inputs(kernel, instance, 33, -1, 1)) {
    if (arrays.count(name)) continue;
    if (auto found = exponents.find(name.substr(1)); found != exponents.end())
      for (size_t i = 0; i < array.values.size(); ++i) array.values[i] *= std::exp2(-found->second.values[i]);
    arrays[name] = array;
  }
  return arrays;
}

/// Both passes: rewritten float64 against unrewritten float64 (operands=exact changes no function), and the rewritten
/// program in float32 within the error bound of the same program in float64.
void expect_rewrites_right(const std::string& name, Settings settings) {
  std::string text = name;
  for (const auto& [key, value] : settings) text += " " + key + "=" + value;
  SCOPED_TRACE(text);
  CompileOptions options = take_compile_options(settings);
  std::string graph = spec_graph(registered(name), Options(settings));
  for (Direction direction : {Direction::fwd, Direction::bwd}) {
    Compilation compilation(graph, direction, options);
    kda::KernelOp rewritten = compilation.kernel(Stage::rewritten), plain = compilation.kernel(Stage::derived);
    if (direction == Direction::bwd) {
      EXPECT_NE(compilation.text(Stage::rewritten), compilation.text(Stage::derived));
    }
    Instance instance = Instance::packed_row({rewritten.chunk() + 3, 0, 5, 2 * rewritten.chunk()}, 2, 2);
    Arrays inputs = draw_scaled(compilation.kernel(Stage::kda), rewritten, instance);
    if (options.operands == Operands::exact)
      for (const auto& found : compare_kernels(rewritten, plain, inputs, instance)) {
        EXPECT_FALSE(!(found.rel_l2 <= 1e-10))
            << direction_name(direction) << " " << found.name << ": " << found.rel_l2;
        EXPECT_FALSE(!(found.max_rel <= 1e-10))
            << direction_name(direction) << " " << found.name << ": " << found.max_rel;
      }
    evaluator::EvaluateOptions exact, single;
    exact.running_error = exact.obey_rounds = true;
    single.arithmetic = evaluator::Arithmetic::f32;
    auto reference = evaluate(rewritten, inputs, instance, exact),
         result = evaluate(rewritten, inputs, instance, single);
    for (const auto& [tensor, array] : reference.tensors)
      for (size_t i = 0; i < array.values.size(); ++i)
        ASSERT_FALSE(!(std::fabs(result.tensors[tensor].values[i] - array.values[i]) <=
                       reference.error_bounds[tensor].values[i]))
            << direction_name(direction) << " " << tensor << "[" << i << "]: " << result.tensors[tensor].values[i]
            << " for " << array.values[i] << ", bound " << reference.error_bounds[tensor].values[i];
  }
}

TEST(Rewritten, ComputesTheSame) {
  for (const RegisteredSpec& spec : registered_specs())
    for (const char* operands : {"exact", "rounded"}) {
      expect_rewrites_right(spec.name, {{"dim", "32"}, {"operands", operands}});
      expect_rewrites_right(spec.name, {{"dim", "20"}, {"chunk", "8"}, {"operands", operands}, {"out", "f32"}});
    }
}
#ifdef KDAGEN_HAS_KDA_K1
TEST(Rewritten, HandOverForms) {
  for (const char* operands : {"exact", "rounded"}) {
    for (const char* handover : {"raw", "premult", "premult4", "fused"})
      expect_rewrites_right("kda_k1", {{"dim", "16"}, {"handover", handover}, {"diag", "1"}, {"operands", operands}});
    for (const char* handover : {"raw", "premult4"})
      expect_rewrites_right("kda_k1", {{"dim", "16"}, {"handover", handover}, {"gt", "pure"}, {"operands", operands}});
    expect_rewrites_right("kda_k1", {{"dim", "16"}, {"anchor", "static"}, {"operands", operands}});
  }
}
#endif

TEST(SpecGradients, DefaultOptions) {
  ASSERT_GE(registered_specs().size(), 2u);
  for (const RegisteredSpec& spec : registered_specs()) expect_gradients(spec.name, {{"dim", "32"}});
}
TEST(SpecGradients, OtherSizes) {
  for (const RegisteredSpec& spec : registered_specs()) {
    expect_gradients(spec.name, {{"dim", "96"}, {"chunk", "8"}});
    expect_gradients(spec.name, {{"dim", "20"}, {"chunk", "24"}});
  }
}
#ifdef KDAGEN_HAS_KDA_K1
TEST(SpecGradients, FullSize) { expect_gradients("kda_k1", {{"upstream", "bf16"}, {"grads", "f32"}}); }
TEST(SpecGradients, HandOverForms) {
  for (const char* handover : {"raw", "premult", "premult4", "fused"})
    for (const char* diag : {"0", "1"})
      expect_gradients("kda_k1", {{"dim", "16"}, {"handover", handover}, {"diag", diag}});
  for (const char* handover : {"raw", "premult4"})
    expect_gradients("kda_k1", {{"dim", "16"}, {"handover", handover}, {"gt", "pure"}, {"lower_bound", "-2"}});
}
/// Cotangents as fp16 with a power of two a row give what their products give as f32.
TEST(SpecGradients, StoredCotangents) {
  Settings settings{{"dim", "16"}, {"grads", "f32"}};
  mlir::MLIRContext context;
  CompileOptions plain = take_compile_options(settings), by_row = plain;
  by_row.upstream = Upstream::fp16row;
  auto module = import_graph(spec_graph(registered("kda_k1"), Options(settings)), context);
  auto from_f32 = derive(only_kernel(*module), plain), from_fp16 = derive(only_kernel(*module), by_row);
  Instance instance = Instance::packed_row({19, 3}, 2, 1);
  Arrays stored = draw_inputs(only_kernel(*from_fp16), instance, 3), products = stored;
  for (auto& [name, array] : stored) {
    auto exponent = stored.find(name + "_exp");
    if (exponent == stored.end()) continue;
    std::vector<double>& exponents = exponent->second.values;
    for (double& value : exponents) value = std::round(value * 9);
    size_t width = array.values.size() / exponents.size();
    for (size_t i = 0; i < array.values.size(); ++i) {
      array.values[i] = std::round(array.values[i] * 1024) / 1024;
      products[name].values[i] = std::ldexp(array.values[i], int(exponents[i / width]));
    }
  }
  auto expected = evaluate(only_kernel(*from_f32), products, instance).tensors;
  for (const auto& [name, array] : evaluate(only_kernel(*from_fp16), stored, instance).tensors)
    EXPECT_FALSE(!(evaluator::compare(name, array.values, expected[name].values).rel_l2 <= 1e-14)) << name;
}
TEST(SpecGradients, SavedValues) { expect_gradients("kda_k1", {{"dim", "16"}, {"save", "g_c,q_inv"}}); }
#endif

}  // namespace
}  // namespace kdagen
