// SPDX-License-Identifier: Apache-2.0
// The parts of kda_k1's workload that its files and its tests share.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "specs/workloads/workload.h"

namespace kdagen {

std::vector<std::string> kda_k1_regimes();
/// q, k, g_raw, v, beta_raw, A_log, dt_bias of one regime, in the problem's declared dtypes (bf16 and f32 if
/// undeclared).
Tensors kda_k1_inputs(const Problem& problem, const std::string& regime, uint64_t seed);
/// The cotangent of the consumer's output [B,T,H,D]: bf16 N(0,1), times do_scale.
HostTensor kda_k1_output_cotangent(const Shape& shape, const ConsumerOptions& consumer);
std::optional<DeclaredBound> kda_k1_bound(const Problem& problem, const std::string& regime, const std::string& tensor,
                                          Oracle oracle, const ConsumerOptions& consumer);

const Workload& kda_k1_workload();

}  // namespace kdagen
