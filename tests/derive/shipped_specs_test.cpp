// SPDX-License-Identifier: Apache-2.0
// The derived backward of every shipped spec, in its forms, against finite differences of its forward.
#include <numeric>

#include <gtest/gtest.h>

#include "codegen/analysis/anchors.h"
#include "codegen/evaluator/finite_differences.h"
#include "tests/common/kernels.h"
#include "tests/common/specs.h"

namespace kdagen {
namespace {
using evaluator::Instance;
using testing::OptionTexts;

struct Form {
  const char* spec;
  OptionTexts options;
};
void PrintTo(const Form& form, std::ostream* out) {
  *out << form.spec;
  for (const auto& [key, value] : form.options) *out << " " << key << "=" << value;
}

const Form forms[] = {
    {"rmsnorm", {}},
    {"l2norm", {}},
    {"gla", {}},
    {"gdn", {}},
#ifdef KDAGEN_HAS_KDA_K1
    {"kda_k1", {}},
    {"kda_k1", {{"gt", "pure"}}},
    {"kda_k1", {{"diag", "1"}}},
    {"kda_k1", {{"anchor", "static"}}},
    {"kda_k1", {{"handover", "premult"}}},
    {"kda_k1", {{"handover", "premult4"}, {"gt", "pure"}}},
    {"kda_k1", {{"handover", "fused"}}},
    {"kda_k1", {{"save", "g_c,e_T"}}},
    {"kda_k1", {{"save", "q_inv,k_n,z"}}},
    {"kda_k1", {{"eps", "0"}}},
#endif
};

class ShippedSpec : public ::testing::TestWithParam<Form> {};

TEST_P(ShippedSpec, AgreesWithFiniteDifferences) {
  OptionTexts options = GetParam().options;
  options["dim"] = "16";
  options["chunk"] = "8";
  CompileOptions compile_options = take_compile_options(options);
  auto specs = registered_specs();
  auto spec = std::find_if(specs.begin(), specs.end(), [](const auto& known) { return known.name == GetParam().spec; });
  if (spec == specs.end()) GTEST_SKIP() << "not built in";
  mlir::MLIRContext context;
  auto imported = import_graph(spec_graph(*spec, Options(options)), context);
  kda::KernelOp forward = only_kernel(*imported);
  place_anchors(forward);
  auto derived = derive(forward, compile_options);
  auto prepared = prepare_forward(forward, compile_options);  // writes the residuals
  kda::KernelOp backward = only_kernel(*derived);

  Instance instance = Instance::packed_row({5, 0, 11, 8, 1}, 2, 3);
  auto inputs = testing::draw_inputs(forward, instance, 7, -1.2, 1.2);
  evaluator::Arrays cotangents;  // of every output, whether the backward needs it or not
  testing::Draws draws(8);
  for (const auto& info : evaluator::tensors_of(forward, instance)) {
    if (!info.is_output) continue;
    evaluator::Array& array = cotangents["d" + info.name];
    array.shape = info.shape;
    int64_t elements = std::accumulate(info.shape.begin(), info.shape.end(), int64_t(1), std::multiplies<>());
    for (int64_t i = 0; i < elements; ++i) array.values.push_back(draws.uniform(-1, 1));
  }
  for (const auto& comparison :
       evaluator::compare_with_finite_differences(GetParam().options.count("save") ? only_kernel(*prepared) : forward,
                                                  backward, inputs, cotangents, instance)) {
    EXPECT_FALSE(!(comparison.max_rel <= 1e-6)) << comparison.name << ": " << comparison.max_rel;
    EXPECT_FALSE(!(comparison.directional <= 1e-6)) << comparison.name << ": " << comparison.directional;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, ShippedSpec, ::testing::ValuesIn(forms));

}  // namespace
}  // namespace kdagen
