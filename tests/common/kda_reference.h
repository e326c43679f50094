// SPDX-License-Identifier: Apache-2.0
// The preamble of Kimi delta attention and its gradients in double, by the unfactored formulas and by hand.
#pragma once
#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "tests/common/emulated_program.h"

namespace kdagen::testing {

struct KdaConstants {
  int64_t chunk = 16, dim = 128;
  double lower_bound = -5, eps = 1e-6;  ///< the bounded gate; 0 stands for -e^A_log softplus(x + dt_bias)
  double scale() const { return 1 / std::sqrt(static_cast<double>(dim)); }
  Settings settings(const Settings& more = {}) const {
    return with({{"chunk", std::to_string(chunk)},
                 {"dim", std::to_string(dim)},
                 {"lower_bound", fmt::format("{}", lower_bound)},
                 {"gt", "pure"}},
                more);
  }
};

inline double stable_sigmoid(double z) { return z >= 0 ? 1 / (1 + std::exp(-z)) : std::exp(z) / (1 + std::exp(z)); }
inline double stable_softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))); }

/// Outputs q_d k_d k_i k_r g_T and gradients dq dk dg_raw dA_log ddt_bias, in the order of the call's tensors. Inputs
/// and cotangents (dg_T of g_T itself: gt=pure) are the call's, as stored; a cotangent that the call lacks is 0.
/// `stored`: the cotangents of exponents are made of the outputs that the call stored.
inline std::map<std::string, std::vector<double>> kda_reference(const Call& call, const std::vector<int64_t>& lengths,
                                                                const KdaConstants& constants, bool stored = false) {
  const int64_t H = call.problem().heads, D = constants.dim, C = constants.chunk;
  constexpr double ln2 = std::numbers::ln2, log2e = std::numbers::log2e;
  int64_t rows = 0, tiles = 0;
  for (int64_t length : lengths) rows += length, tiles += (length + C - 1) / C;
  std::map<std::string, std::vector<double>> out;
  for (const char* name : {"q_d", "k_d", "k_i", "k_r", "dq", "dk", "dg_raw"}) out[name].assign(rows * H * D, 0);
  out["g_T"].assign(tiles * H * D, 0), out["ddt_bias"].assign(H * D, 0), out["dA_log"].assign(H, 0);
  const auto cotangent = [&](const char* name, int64_t row, int64_t h, int64_t d) {
    return call.has(name) ? call(name, row, h, d) : 0.0;
  };
  int64_t first = 0, tile = 0;
  for (int64_t length : lengths) {
    for (int64_t begin = first; begin < first + length; begin += C, ++tile)
      for (int64_t h = 0; h < H; ++h) {
        const int64_t n = std::min(C, first + length - begin);
        const auto at = [&](int64_t r, int64_t d) { return ((begin + r) * H + h) * D + d; };
        std::vector<double> q_inv(n), k_inv(n), dqn(n * D), dkn(n * D), dc(n * D), c(n * D);
        for (int64_t r = 0; r < n; ++r) {
          double q2 = constants.eps, k2 = constants.eps;
          for (int64_t d = 0; d < D; ++d)
            q2 += std::pow(call("q", begin + r, h, d), 2), k2 += std::pow(call("k", begin + r, h, d), 2);
          q_inv[r] = 1 / std::sqrt(q2), k_inv[r] = 1 / std::sqrt(k2);
        }
        const double rate = std::exp(call("A_log", 0, h));
        for (int64_t d = 0; d < D; ++d) {
          const double bias = call("dt_bias", 0, h, d);
          double sum = 0;
          for (int64_t r = 0; r < n; ++r) {
            const double y = call("g_raw", begin + r, h, d) + bias;
            sum += constants.lower_bound ? constants.lower_bound * log2e * stable_sigmoid(rate * y)
                                         : -rate * log2e * stable_softplus(y);
            c[r * D + d] = sum;
          }
          out["g_T"][(tile * H + h) * D + d] = sum;
          double total = cotangent("dg_T", tile, h, d);
          for (int64_t r = 0; r < n; ++r) {
            const double qn = call("q", begin + r, h, d) * q_inv[r], kn = call("k", begin + r, h, d) * k_inv[r],
                         e = c[r * D + d];
            const double values[4] = {qn * std::exp2(e) * constants.scale(), kn * std::exp2(e), kn * std::exp2(-e),
                                      kn * std::exp2(sum - e)};
            double cotangents[4];
            const char* const names[4] = {"q_d", "k_d", "k_i", "k_r"};
            for (int i = 0; i < 4; ++i) {
              cotangents[i] = cotangent(("d" + std::string(names[i])).c_str(), begin + r, h, d);
              out[names[i]][at(r, d)] = values[i];
            }
            const auto value = [&](int i) { return stored ? call(names[i], begin + r, h, d) : values[i]; };
            dqn[r * D + d] = cotangents[0] * std::exp2(e) * constants.scale();
            dkn[r * D + d] =
                cotangents[1] * std::exp2(e) + cotangents[2] * std::exp2(-e) + cotangents[3] * std::exp2(sum - e);
            dc[r * D + d] = ln2 * (cotangents[0] * value(0) + cotangents[1] * value(1) - cotangents[2] * value(2) -
                                   cotangents[3] * value(3));
            total += ln2 * cotangents[3] * value(3);
          }
          double suffix = total;
          for (int64_t r = n; r-- > 0;) {
            suffix += dc[r * D + d];
            const double y = call("g_raw", begin + r, h, d) + bias,
                         s = stable_sigmoid(constants.lower_bound ? rate * y : y);
            const double slope = constants.lower_bound
                                     ? constants.lower_bound * log2e * s * (stable_sigmoid(-rate * y)) * rate
                                     : -rate * log2e * s;
            const double da = constants.lower_bound ? slope * y : -rate * log2e * stable_softplus(y);
            out["dg_raw"][at(r, d)] = suffix * slope;
            out["ddt_bias"][h * D + d] += suffix * slope;
            out["dA_log"][h] += suffix * da;
          }
        }
        for (int64_t r = 0; r < n; ++r) {
          double q_dot = 0, k_dot = 0;
          for (int64_t d = 0; d < D; ++d)
            q_dot += call("q", begin + r, h, d) * dqn[r * D + d], k_dot += call("k", begin + r, h, d) * dkn[r * D + d];
          for (int64_t d = 0; d < D; ++d) {
            out["dq"][at(r, d)] =
                q_inv[r] * dqn[r * D + d] - call("q", begin + r, h, d) * std::pow(q_inv[r], 3) * q_dot;
            out["dk"][at(r, d)] =
                k_inv[r] * dkn[r * D + d] - call("k", begin + r, h, d) * std::pow(k_inv[r], 3) * k_dot;
          }
        }
      }
    first += length;
  }
  return out;
}

}  // namespace kdagen::testing
