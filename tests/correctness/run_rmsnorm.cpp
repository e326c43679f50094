// SPDX-License-Identifier: Apache-2.0
// `run` on rmsnorm against its formulas: y = w*x*s, s = (mean x^2 + eps)^-1/2, dx = s*(w*dy - x*s^2*mean(w*dy*x)),
// dw = sum over rows and heads of dy*x*s.
#include <gtest/gtest.h>

#include "tests/common/run_case.h"

using namespace kdagen::testing;

namespace {

constexpr int64_t batch = 2, tokens = 21, heads = 2, dim = 32;

const std::vector<std::string> options{"dim=32", "dtype=f32", "out=f32", "grads=f32"};

std::vector<std::string> with_layout(const std::string& layout) {
  std::vector<std::string> all = options;
  all.push_back("layout=" + layout);
  return all;
}

/// Element [b,t,h,d] of a [B,T,H,D] or [B,H,T,D] tensor.
int64_t at(const std::string& layout, int64_t b, int64_t t, int64_t h, int64_t d) {
  return layout == "bthd" ? ((b * tokens + t) * heads + h) * dim + d : ((b * heads + h) * tokens + t) * dim + d;
}

struct Expected {
  std::vector<double> y, dx, dw = std::vector<double>(dim);
};

Expected expected(const TensorFile& in, const std::string& layout) {
  const HostTensor &x = in.tensors.at("x"), &w = in.tensors.at("weight"), &dy = in.tensors.at("dy");
  Expected result;
  result.y.resize(x.elements());
  result.dx.resize(x.elements());
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < heads; ++h) {
        double squares = 0, products = 0;
        const auto element = [&](int64_t d) { return at(layout, b, t, h, d); };
        for (int64_t d = 0; d < dim; ++d) {
          squares += std::pow(x.get(element(d)), 2);
          products += w.get(d) * dy.get(element(d)) * x.get(element(d));
        }
        const double s = 1 / std::sqrt(squares / dim + 1e-6);
        for (int64_t d = 0; d < dim; ++d) {
          const double xd = x.get(element(d)), dyd = dy.get(element(d));
          result.y[element(d)] = w.get(d) * xd * s;
          result.dx[element(d)] = s * (w.get(d) * dyd - xd * s * s * products / dim);
          result.dw[d] += dyd * xd * s;
        }
      }
  return result;
}

void expect_close(const HostTensor& tensor, const std::vector<double>& values, double tolerance) {
  ASSERT_EQ(tensor.elements(), static_cast<int64_t>(values.size()));
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::fabs(value));
  for (int64_t i = 0; i < tensor.elements(); ++i)
    ASSERT_TRUE(std::fabs(tensor.get(i) - values[i]) <= tolerance * largest)
        << i << ": " << tensor.get(i) << " against " << values[i];
}

class RunRmsnorm : public ::testing::TestWithParam<std::string> {};

}  // namespace

TEST_P(RunRmsnorm, ValuesAndTypes) {
  const RunCase call("rmsnorm", with_layout(GetParam()), {batch, tokens, heads});
  const TensorFile in = call.inputs("bwd");  // x, weight and dy: what the forward needs is among them
  const Expected want = expected(in, GetParam());
  for (const auto& [on, arithmetic, tolerance, dtype] : {std::tuple{"cpu", "f64", 1e-13, kdagen::runtime::DType::f64},
                                                         {"cpu", "f32", 1e-5, kdagen::runtime::DType::f32},
                                                         {"emulator", "f64", 1e-5, kdagen::runtime::DType::f32}}) {
    SCOPED_TRACE(std::string(on) + " " + arithmetic);
    const std::vector<std::string> more{"--set", std::string("arithmetic=") + arithmetic};
    const TensorFile fwd = call.run("fwd", on, in, more), bwd = call.run("bwd", on, in, more);
    EXPECT_EQ(fwd.tensors.size(), 1u);
    EXPECT_EQ(bwd.tensors.size(), 2u);
    EXPECT_EQ(fwd.tensors.at("y").dtype, dtype);
    EXPECT_TRUE(fwd.tensors.at("y").shape == in.tensors.at("x").shape);
    expect_close(fwd.tensors.at("y"), want.y, tolerance);
    expect_close(bwd.tensors.at("dx"), want.dx, tolerance);
    expect_close(bwd.tensors.at("dweight"), want.dw, tolerance);
  }
}
INSTANTIATE_TEST_SUITE_P(Layouts, RunRmsnorm, ::testing::Values("bthd", "htd"));

TEST(RunRmsnormCalls, DoubleInputsAreTakenAsGivenOnTheCpu) {
  const RunCase call("rmsnorm", {"dim=32"}, {1, 3, 1});
  TensorFile in = call.inputs("fwd");
  HostTensor exact(kdagen::runtime::DType::f64, in.tensors.at("x").shape);
  for (int64_t i = 0; i < exact.elements(); ++i) exact.set(i, 1 + 0x1p-30 * static_cast<double>(i));  // 1 in bf16
  in.tensors.at("x") = exact;
  const HostTensor y = call.run("fwd", "cpu", in).tensors.at("y");
  EXPECT_NE(y.get(0), y.get(1) * in.tensors.at("weight").get(0) / in.tensors.at("weight").get(1));
  EXPECT_EQ(call.start("fwd", "emulator", in).code, 2);
}

// T043
TEST(RunRmsnormCalls, NoRows) {
  const RunCase call("rmsnorm", options, {2, 0, 3});
  const TensorFile in = call.inputs("bwd");
  for (const char* on : {"cpu", "emulator"}) {
    const TensorFile out = call.run("bwd", on, in);
    EXPECT_EQ(out.tensors.at("dx").elements(), 0);
    for (int64_t d = 0; d < dim; ++d) EXPECT_EQ(out.tensors.at("dweight").get(d), 0);
  }
}

TEST(RunRmsnormCalls, TheOutputMayReplaceTheInput) {
  const RunCase call("rmsnorm", options, {1, 5, 1});
  const std::string file = (call.folder() / "both.safetensors").string();
  kdagen::runtime::write_safetensors(file, call.inputs("fwd"));
  const Outcome outcome = kdagen::testing::kdagen({"run", "rmsnorm", "--pass", "fwd", "--on", "cpu", "--in", file,
                                                   "--out", file, "--set", "dim=32", "--set", "dtype=f32"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(kdagen::runtime::read_safetensors(file).tensors.count("y"), 1u);
}
