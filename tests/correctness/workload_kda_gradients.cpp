// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>
#include <kdagen/error.h>

#include "specs/workloads/kda_preamble.h"
#include "tests/correctness/workload_kda_reference.h"

namespace kdagen {
namespace {

Problem small_problem() {
  Problem problem;
  problem.spec = "kda_k1";
  problem.shape.packed = true;
  problem.shape.seqlens = {6, 0, 1, 3};
  problem.shape.dead_rows = 2;
  problem.shape.heads = 2;
  problem.shape.dim = 4;
  problem.shape.chunk = 4;
  return problem;
}

double largest(const std::vector<double>& values) {
  double result = 0;
  for (double value : values) result = std::max(result, std::fabs(value));
  return result;
}

/// Widens the tensors; only the canonical row-major layout is used below.
std::map<std::string, std::vector<Long>> widen(const Tensors& tensors) {
  std::map<std::string, std::vector<Long>> result;
  for (const auto& [name, tensor] : tensors) result[name].assign(tensor.values.begin(), tensor.values.end());
  return result;
}

class EndToEnd : public testing::TestWithParam<std::string> {};

TEST_P(EndToEnd, MatchesFiniteDifferencesOfTheTokenRecurrence) {
  const Workload& workload = find_workload("kda_k1");
  const ConsumerOptions consumer;
  const int64_t chunks[] = {1, 2, 4, 16};
  Problem problem = small_problem();
  const Tensors inputs = workload.inputs(problem, GetParam(), 3);
  std::vector<Tensors> gradients;
  for (int64_t chunk : chunks) {
    problem.shape.chunk = chunk;
    gradients.push_back(workload.end_to_end(problem, inputs, consumer));
  }
  const HostTensor output_cotangent = kda_k1_output_cotangent(problem.shape, consumer);
  auto x = widen(inputs);
  auto loss = [&] { return token_recurrence_loss(problem.shape, x, output_cotangent, -5, 1e-6L); };
  // Rounding noise of the difference quotient itself: it shows where sigmoid' is 2e-9.
  const Long noise = 1e-14L * std::fabs(loss());
  for (const auto& [name, tensor] : inputs) {
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      const Long expected = derivative(loss, x[name][i]);
      for (size_t n = 0; n < gradients.size(); ++n) {
        const std::vector<double>& gradient = gradients[n].at("d" + name).values;
        EXPECT_TRUE(std::fabs(expected - gradient[i]) <= 1e-9L * largest(gradient) + noise)
            << name << "[" << i << "] chunk " << chunks[n];
        EXPECT_TRUE(std::fabs(gradient[i] - gradients[0].at("d" + name).values[i]) <= 1e-10 * largest(gradient))
            << name << "[" << i << "] chunk " << chunks[n] << " against chunk 1";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Regimes, EndToEnd, testing::ValuesIn(kda_k1_regimes()));

std::vector<LongChunk> widen(const std::vector<ChunkOperands>& chunks, int64_t dim) {
  std::vector<LongChunk> result;
  for (const ChunkOperands& c : chunks) {
    LongChunk wide{c.rows, {}, {}, {}, {}, {}, {}, {}, {}, {}};
    for (int64_t i = 0; i < c.rows * dim; ++i) {
      const Long anchor = std::exp2(Long(c.anchor[i % dim]));
      wide.q_d.push_back(c.q_d[i] * anchor);
      wide.k_d.push_back(c.k_d[i] * anchor);
      wide.k_i.push_back(c.k_i[i] / anchor);
      wide.k_r.push_back(c.k_r[i]);
    }
    for (double decay : c.decay) wide.g_T.push_back(std::log2(Long(decay)));
    wide.diagonal.assign(c.diagonal.begin(), c.diagonal.end());
    wide.v.assign(c.v.begin(), c.v.end());
    wide.beta.assign(c.beta.begin(), c.beta.end());
    wide.output_cotangent.assign(c.output_cotangent.begin(), c.output_cotangent.end());
    result.push_back(wide);
  }
  return result;
}

void expect_derivatives(const std::function<Long()>& loss, std::vector<Long>& x, const std::vector<Long>& expected,
                        const std::string& name) {
  ASSERT_EQ(x.size(), expected.size()) << name;
  Long scale = 0;
  for (Long value : expected) scale = std::max(scale, std::fabs(value));
  for (size_t i = 0; i < x.size(); ++i) {
    Long step = 1e-3L * std::max(Long(1), std::fabs(x[i]));
    Long difference = derivative(loss, x[i], step) - expected[i];
    EXPECT_TRUE(std::fabs(difference) <= 1e-9L * scale) << name << "[" << i << "]";
  }
}

/// Unrelated random operands, so that no two cotangents can stand in for one another.
TEST(Consumer, EveryOperandCotangentMatchesFiniteDifferences) {
  const int64_t dim = 5;
  for (bool diagonal : {false, true}) {
    Random random(11, "operands");
    std::vector<ChunkOperands> chunks;
    for (int64_t rows : {4, 3}) {
      ChunkOperands c;
      c.rows = rows;
      for (auto* matrix : {&c.q_d, &c.k_d, &c.k_i, &c.k_r, &c.v, &c.output_cotangent})
        for (int64_t i = 0; i < rows * dim; ++i) matrix->push_back(random.normal());
      for (int64_t d = 0; d < dim; ++d) c.anchor.push_back(static_cast<double>(d) - 2);
      for (int64_t d = 0; d < dim; ++d) c.decay.push_back(random.uniform(0.1, 1));
      for (int64_t r = 0; r < rows; ++r) c.beta.push_back(random.uniform(0.1, 1));
      for (int64_t r = 0; r < rows && diagonal; ++r) c.diagonal.push_back(random.normal());
      chunks.push_back(c);
    }
    std::vector<ChunkCotangents> cotangents;
    double value = run_kda_k2(chunks, dim, false, cotangents);
    std::vector<LongChunk> wide = widen(chunks, dim);
    auto loss = [&] { return chunk_recurrence_loss(wide, dim); };
    EXPECT_TRUE(std::fabs(loss() - value) <= 1e-12L * std::fabs(value));
    for (size_t n = 0; n < chunks.size(); ++n) {
      auto scaled = [&](const std::vector<double>& values, double sign) {
        std::vector<Long> result;
        for (size_t i = 0; i < values.size(); ++i)
          result.push_back(values[i] * std::exp2(Long(sign * chunks[n].anchor[i % dim])));
        return result;
      };
      expect_derivatives(loss, wide[n].q_d, scaled(cotangents[n].q_d, -1), "q_d");
      expect_derivatives(loss, wide[n].k_d, scaled(cotangents[n].k_d, -1), "k_d");
      expect_derivatives(loss, wide[n].k_i, scaled(cotangents[n].k_i, 1), "k_i");
      expect_derivatives(loss, wide[n].k_r, scaled(cotangents[n].k_r, 0), "k_r");
      expect_derivatives(loss, wide[n].v, scaled(cotangents[n].v, 0), "v");
      std::vector<Long> g_T;
      for (double x : cotangents[n].decay_exponent) g_T.push_back(x * std::log(Long(2)));
      expect_derivatives(loss, wide[n].g_T, g_T, "g_T");
      expect_derivatives(loss, wide[n].beta, {cotangents[n].beta.begin(), cotangents[n].beta.end()}, "beta");
      expect_derivatives(loss, wide[n].diagonal, {cotangents[n].diagonal.begin(), cotangents[n].diagonal.end()}, "qk");
    }
  }
}

}  // namespace
}  // namespace kdagen
