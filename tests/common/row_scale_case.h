// SPDX-License-Identifier: Apache-2.0
// Data for row_scale: strided views, offsets, and what must come out.
#pragma once
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/problem.h"
#include "runtime/safetensors.h"

namespace kdagen::testing {

/// One call on host memory. `shift` moves every 16-bit and 32-bit tensor by so many elements from an aligned place;
/// `spread` widens the token stride of x and the head stride of y by that many elements.
struct RowScaleCase {
  static constexpr int dim = 8;
  runtime::Problem problem;
  std::vector<std::int64_t> offsets64;
  std::vector<std::int32_t> offsets32;
  std::int64_t shift = 0, spread = 0;
  std::vector<std::uint16_t> x;  // bf16 bits
  std::vector<float> weight, y, total;

  RowScaleCase(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t shift = 0,
               std::int64_t spread = 0)
      : shift(shift), spread(spread) {
    problem.batch = batch;
    problem.tokens = tokens;
    problem.heads = heads;
    problem.sequences = batch;
    x.assign(static_cast<std::size_t>(batch * tokens * x_token() + shift + 8), 0x7fc0);  // NaN in the gaps
    y.assign(static_cast<std::size_t>(batch * heads * y_head() + shift + 8), -7.0f);
    weight.resize(static_cast<std::size_t>(heads * dim));
    total.assign(weight.size(), -7.0f);
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = 1.0f + static_cast<float>(i % 5);
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t h = 0; h < heads; ++h)
          for (int d = 0; d < dim; ++d)
            runtime::store_from_double(runtime::DType::bf16, &x[x_index(b, t, h, d)], value(b, t, h, d));
  }

  /// Small integers, so that every sum is exact.
  static double value(std::int64_t b, std::int64_t t, std::int64_t h, int d) {
    return static_cast<double>((b * 5 + t * 3 + h * 7 + d * 2) % 11) - 5;
  }
  std::int64_t x_token() const { return problem.heads * dim + spread; }
  std::int64_t y_head() const { return problem.tokens * dim + spread; }
  std::size_t x_index(std::int64_t b, std::int64_t t, std::int64_t h, int d) const {
    return static_cast<std::size_t>(shift + (b * problem.tokens + t) * x_token() + h * dim + d);
  }
  std::size_t y_index(std::int64_t b, std::int64_t t, std::int64_t h, int d) const {
    return static_cast<std::size_t>(shift + (b * problem.heads + h) * y_head() + t * dim + d);
  }

  void pack(const std::vector<std::int64_t>& offsets, runtime::OffsetType type) {
    offsets64 = offsets;
    offsets32.assign(offsets.begin(), offsets.end());
    problem.sequences = static_cast<std::int64_t>(offsets.size()) - 1;
    problem.offsets = type;
    problem.cu_seqlens = type == runtime::OffsetType::i64 ? static_cast<void*>(offsets64.data()) : offsets32.data();
  }

  std::vector<runtime::TensorRef> tensors() {
    using runtime::DType;
    const std::int64_t B = problem.batch, T = problem.tokens, H = problem.heads;
    return {{"x", x.data() + shift, DType::bf16, {B, T, H, dim}, {T * x_token(), x_token(), dim, 1}, -1},
            {"weight", weight.data(), DType::f32, {H, dim}, {dim, 1}, -1},
            {"y", y.data() + shift, DType::f32, {B, H, T, dim}, {H * y_head(), y_head(), dim, 1}, -1},
            {"total", total.data(), DType::f32, {H, dim}, {dim, 1}, -1}};
  }

  /// Rows of no sequence must be 0, everything outside the elements of y untouched.
  void expect_right() const {
    const std::int64_t live = problem.packed() ? offsets64.back() : problem.tokens;
    std::vector<float> expected(y.size(), -7.0f);
    std::vector<double> sums(total.size(), 0.0);
    for (std::int64_t b = 0; b < problem.batch; ++b)
      for (std::int64_t h = 0; h < problem.heads; ++h)
        for (std::int64_t t = 0; t < problem.tokens; ++t)
          for (int d = 0; d < dim; ++d) {
            const double v = t < live ? value(b, t, h, d) : 0.0;
            expected[y_index(b, t, h, d)] = static_cast<float>(v * weight[static_cast<std::size_t>(h * dim + d)]);
            sums[static_cast<std::size_t>(h * dim + d)] += v;
          }
    EXPECT_EQ(0, std::memcmp(expected.data(), y.data(), y.size() * sizeof(float)));
    for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(total[i], sums[i]) << "total[" << i << "]";
  }
};

}  // namespace kdagen::testing
