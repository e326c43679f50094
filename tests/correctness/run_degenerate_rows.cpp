// SPDX-License-Identifier: Apache-2.0
// Rows of zeros, of tiny and of huge norm: `run` against the formulas in long double, whose exponents never end.
#include <gtest/gtest.h>

#include <functional>

#include "tests/common/run_case.h"

using namespace kdagen::testing;

namespace {

constexpr int64_t dim = 64;
using Real = long double;

/// The largest element of each row; directions differ from row to row.
const std::vector<double> sizes{0, 1e-30, 1e-10, 1e-3, 1, 1e10, 0x1p55, 0x1p62, 0x1p64, 1e20, 1e25, 1e30, 0x1p125};

double direction(int64_t row, int64_t column) {
  return std::sin(1.0 + 7.0 * static_cast<double>(row) + 0.7 * static_cast<double>(column));
}

void set_rows(HostTensor& x) {
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, sizes[i / dim] * direction(i / dim, i % dim));
}

/// x * r and (dy - y (y.dy) factor) * r with r = 1/sqrt(factor * sum x^2 + 1e-6), dy the cotangent of x * r.
struct Row {
  std::vector<Real> y, dx;
};
Row expected(const HostTensor& x, int64_t row, Real factor, const std::function<Real(int64_t)>& dy) {
  Real squares = 0, along = 0;
  for (int64_t d = 0; d < dim; ++d) squares += Real(x.get(row * dim + d)) * Real(x.get(row * dim + d));
  const Real r = 1 / std::sqrt(factor * squares + Real(1e-6));
  Row result;
  for (int64_t d = 0; d < dim; ++d) result.y.push_back(Real(x.get(row * dim + d)) * r);
  for (int64_t d = 0; d < dim; ++d) along += result.y[d] * dy(d);
  for (int64_t d = 0; d < dim; ++d) result.dx.push_back((dy(d) - result.y[d] * along * factor) * r);
  return result;
}

/// A multiple of 2^-149 off is no error: below 2^-126 floats have fixed steps.
void expect_row(const HostTensor& got, int64_t row, const std::vector<Real>& wanted, Real tolerance) {
  Real error = 0, size = 0;
  for (int64_t d = 0; d < dim; ++d) {
    const double value = got.get(row * dim + d);
    ASSERT_TRUE(std::isfinite(value)) << "row of size " << sizes[row];
    error += std::pow(std::fmax(std::fabs(Real(value) - wanted[d]) - Real(0x1p-148), Real(0)), 2);
    size += wanted[d] * wanted[d];
  }
  EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(size)) << "row of size " << sizes[row];
}

struct Case {
  std::string spec, on;
};
class DegenerateRows : public ::testing::TestWithParam<Case> {
 protected:
  const std::vector<std::string> options_{"dim=64", "dtype=f32", "out=f32", "grads=f32"};
  const std::vector<std::string> float32_{"--set", "arithmetic=f32"};
  const Sizes call_sizes_{1, static_cast<int64_t>(sizes.size()), 1};
};

}  // namespace

TEST_P(DegenerateRows, NormAndItsGradient) {
  const auto& [spec, on] = GetParam();
  const RunCase call(spec, options_, call_sizes_);
  TensorFile in = call.inputs("bwd");
  HostTensor& x = in.tensors.at("x");
  set_rows(x);
  if (spec == "rmsnorm")
    for (int64_t d = 0; d < dim; ++d) in.tensors.at("weight").set(d, 1 + 0.25 * static_cast<double>(d % 3));
  const auto weight = [&](int64_t d) { return spec == "rmsnorm" ? in.tensors.at("weight").get(d) : 1.0; };
  const TensorFile forward = call.run("fwd", on, in, float32_), backward = call.run("bwd", on, in, float32_);
  for (int64_t row = 0; row < call_sizes_.tokens; ++row) {
    Row wanted = expected(x, row, spec == "rmsnorm" ? Real(1) / dim : 1,
                          [&](int64_t d) { return Real(in.tensors.at("dy").get(row * dim + d)) * weight(d); });
    for (int64_t d = 0; d < dim; ++d) wanted.y[d] *= weight(d);
    expect_row(forward.tensors.at("y"), row, wanted.y, 3e-7L);
    expect_row(backward.tensors.at("dx"), row, wanted.dx, 2e-6L);
  }
}
INSTANTIATE_TEST_SUITE_P(, DegenerateRows,
                         ::testing::Values(Case{"l2norm", "emulator"}, Case{"l2norm", "cpu"},
                                           Case{"rmsnorm", "emulator"}, Case{"rmsnorm", "cpu"}),
                         [](const auto& test) { return test.param.spec + "_" + test.param.on; });

/// The gates are all g = -5 log2(e) / 2, so that decays are known: k_i is k_n * 2^(2.5 log2(e) rows).
TEST(DegenerateRowsKdaK1, RowsOfQAndK) {
  for (const char* on : {"emulator", "cpu"}) {
    const RunCase call("kda_k1", {"dim=64", "dtype=f32", "out=f32", "grads=f32", "lower_bound=-0.5", "anchor=static"},
                       {1, static_cast<int64_t>(sizes.size()), 1});
    TensorFile in = call.inputs("bwd");
    for (auto& [name, tensor] : call.inputs("fwd").tensors) in.tensors.emplace(name, tensor);
    for (const char* name : {"q", "k"}) set_rows(in.tensors.at(name));
    for (const char* name : {"g_raw", "A_log", "dt_bias", "dk_d", "dk_r"})
      for (int64_t i = 0; i < in.tensors.at(name).elements(); ++i) in.tensors.at(name).set(i, 0);
    const TensorFile fwd = call.run("fwd", on, in, {"--set", "arithmetic=f32"}),
                     bwd = call.run("bwd", on, in, {"--set", "arithmetic=f32"});
    const Real anchor = std::exp2(Real(6));  // rint(16 * 0.5 * log2(e) / 2)
    for (int64_t row = 0; row < static_cast<int64_t>(sizes.size()); ++row) {
      const Real decay = std::exp(Real(-0.25) * Real(row + 1)), up = anchor * decay, down = 1 / up;
      const auto cotangent = [&](const char* name, Real factor) {
        return [&in, name, row, factor](int64_t d) { return Real(in.tensors.at(name).get(row * dim + d)) * factor; };
      };
      Row q = expected(in.tensors.at("q"), row, 1, cotangent("dq_d", up / 8)),
          k = expected(in.tensors.at("k"), row, 1, cotangent("dk_i", down));
      for (int64_t d = 0; d < dim; ++d) q.y[d] *= up / 8, k.y[d] *= down;  // scale = 1/sqrt(64)
      expect_row(fwd.tensors.at("q_d"), row, q.y, 1e-6L);
      expect_row(fwd.tensors.at("k_i"), row, k.y, 1e-6L);
      expect_row(bwd.tensors.at("dq"), row, q.dx, 2e-6L);
      expect_row(bwd.tensors.at("dk"), row, k.dx, 2e-6L);
    }
    for (const char* name : {"dg_raw", "dA_log", "ddt_bias"})
      for (int64_t i = 0; i < bwd.tensors.at(name).elements(); ++i)
        ASSERT_TRUE(std::isfinite(bwd.tensors.at(name).get(i))) << name;
  }
}
