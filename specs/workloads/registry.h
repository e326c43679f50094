// SPDX-License-Identifier: Apache-2.0
// The list of workloads, written down so that a static library never drops one; CMakeLists.txt tells which are in the
// folder.
#pragma once
#include <map>
#include <string>

#include "specs/workloads/workload.h"
#ifdef KDAGEN_WORKLOAD_KDA_K1
#include "specs/workloads/kda_k1.h"
#endif

namespace kdagen {

inline std::map<std::string, const Workload& (*)()> registered_workloads() {
  return {
#ifdef KDAGEN_WORKLOAD_KDA_K1
      {"kda_k1", kda_k1_workload},
#endif
  };
}

}  // namespace kdagen
