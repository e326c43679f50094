// SPDX-License-Identifier: Apache-2.0
// Six gate regimes. All rows of q and k share a mean per feature, so that in-chunk products do not average out.
#include <cmath>

#include <kdagen/error.h>

#include "specs/workloads/kda_k1.h"

namespace kdagen {
namespace {

/// z = exp(A_log) * (g_raw + dt_bias); the gate is lower_bound * sigmoid(z) nats.
struct GateRegime {
  const char* name;
  double (*log_rate)(Random&);  ///< A_log of a head
  double (*bias)(Random&);      ///< dt_bias of a head and feature
  double deviation;             ///< of g_raw
};

double zero(Random&) { return 0; }
double log_uniform_rate(Random& random) { return std::log(random.uniform(1, 16)); }
/// softplus^-1 of a step drawn log-uniformly from [1e-3, 0.1].
double initial_bias(Random& random) {
  return std::log(std::expm1(std::exp(random.uniform(std::log(1e-3), std::log(0.1)))));
}

const GateRegime gate_regimes[] = {
    {"typical", zero, [](Random& random) { return random.uniform(-4.3, -1.5); }, 0.4},
    {"strong", zero, [](Random& random) { return random.uniform(5.2, 7.0); }, 0.4},
    {"mixed", [](Random&) { return std::log(4.0); }, [](Random& random) { return 0.5 * random.normal(); }, 1.0},
    {"init", log_uniform_rate, initial_bias, 0.4},
    {"trained", log_uniform_rate, [](Random& random) { return initial_bias(random) + 4.5; }, 0.4},
    // Eighths up to 2 in size: g_raw = 20 - dt_bias is exact in bf16 and fp16.
    {"bound", zero, [](Random& random) { return std::rint(random.uniform(-16, 16)) / 8; }, 0},
};

const GateRegime& find_regime(const std::string& name) {
  std::string known;
  for (const GateRegime& regime : gate_regimes) {
    if (name == regime.name) return regime;
    known += std::string(known.empty() ? "" : ", ") + regime.name;
  }
  throw UsageError("kda_k1 has no regime '" + name + "'; it has: " + known);
}

HostTensor empty_tensor(const Problem& problem, const std::string& name) {
  const Shape& shape = problem.shape;
  bool param = name == "A_log" || name == "dt_bias";
  std::string dtype = param ? "f32" : "bf16";
  for (const Declaration& declaration : problem.inputs)
    if (declaration.name == name) dtype = declaration.dtype;
  std::vector<int64_t> extents =
      param ? std::vector<int64_t>{shape.heads} : std::vector<int64_t>{shape.batch, shape.tokens(), shape.heads};
  if (name != "A_log" && name != "beta_raw") extents.push_back(shape.dim);
  return make_tensor(name, dtype, extents);
}

/// N(0,1), plus half of a N(0,1) mean per head and feature, the same for all rows of q and k, when `shared_mean`.
void fill_normal(HostTensor& tensor, const Shape& shape, uint64_t seed, bool shared_mean) {
  const FloatFormat& format = float_format(tensor.dtype);
  Random random(seed, tensor.name), mean_random(seed, "mean");
  std::vector<double> mean(shape.heads * shape.dim, 0.0);
  if (shared_mean)
    for (double& value : mean) value = 0.5 * mean_random.normal();
  for (size_t i = 0; i < tensor.values.size(); ++i)
    tensor.values[i] = round_to(random.normal() + mean[i % mean.size()], format);
}

}  // namespace

std::vector<std::string> kda_k1_regimes() {
  std::vector<std::string> names;
  for (const GateRegime& regime : gate_regimes) names.push_back(regime.name);
  return names;
}

Tensors kda_k1_inputs(const Problem& problem, const std::string& regime_name, uint64_t seed) {
  const GateRegime& regime = find_regime(regime_name);
  const Shape& shape = problem.shape;
  Tensors result;
  for (const char* name : {"q", "k", "v", "beta_raw", "g_raw", "A_log", "dt_bias"})
    result[name] = empty_tensor(problem, name);
  for (const char* name : {"q", "k"}) fill_normal(result[name], shape, seed, true);
  for (const char* name : {"v", "beta_raw", "g_raw"}) fill_normal(result[name], shape, seed, false);

  Random rate_random(seed, "A_log"), bias_random(seed, "dt_bias");
  HostTensor &A_log = result["A_log"], &dt_bias = result["dt_bias"], &g_raw = result["g_raw"];
  for (double& value : A_log.values) value = round_to(regime.log_rate(rate_random), A_log.dtype);
  for (double& value : dt_bias.values) value = round_to(regime.bias(bias_random), dt_bias.dtype);
  const FloatFormat& format = float_format(g_raw.dtype);
  for (size_t i = 0; i < g_raw.values.size(); ++i) {
    double bias = dt_bias.values[i % dt_bias.values.size()];
    double value = regime.deviation == 0 ? 20 - bias : regime.deviation * g_raw.values[i];
    g_raw.values[i] = round_to(value, format);
  }
  return result;
}

HostTensor kda_k1_output_cotangent(const Shape& shape, const ConsumerOptions& consumer) {
  HostTensor tensor = make_tensor("do", "f64", {shape.batch, shape.tokens(), shape.heads, shape.dim});
  const FloatFormat& bf16 = float_format("bf16");
  Random random(consumer.seed, "do");
  for (double& value : tensor.values) value = consumer.do_scale * round_to(random.normal(), bf16);
  return tensor;
}

}  // namespace kdagen
