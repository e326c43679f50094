// SPDX-License-Identifier: Apache-2.0
// The derived backward against finite differences of the forward, both unrewritten, in float64.
#pragma once
#include <string>
#include <vector>

#include "tools/check/check.h"

namespace kdagen {

/// On an instance of at most two heads and a few rows with a ragged tail: some elements of every gradient one by one,
/// and every gradient along a random direction (in max_rel). `forward` is the imported one, with its detach ops;
/// storage options of the request do not matter here.
std::vector<Verdict> compare_with_differences(const CheckRequest& request, kda::KernelOp forward,
                                              const Problem& problem, const Workload& workload,
                                              const std::string& regime);

}  // namespace kdagen
