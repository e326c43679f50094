// SPDX-License-Identifier: Apache-2.0
// The list of workloads, written down so that a static library never drops one.
#pragma once
#include <map>
#include <string>

#include "specs/workloads/kda_k1.h"

namespace kdagen {

inline std::map<std::string, const Workload& (*)()> registered_workloads() { return {{"kda_k1", kda_k1_workload}}; }

}  // namespace kdagen
