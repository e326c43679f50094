// SPDX-License-Identifier: Apache-2.0
// The list of workloads, written down so that a static library never drops one; a workload that was taken out of the folder is left out.
#pragma once
#include <map>
#include <string>

#include "specs/workloads/workload.h"
#if __has_include("specs/workloads/kda_k1.h")
#include "specs/workloads/kda_k1.h"
#endif

namespace kdagen {

inline std::map<std::string, const Workload& (*)()> registered_workloads() {
  return {
#if __has_include("specs/workloads/kda_k1.h")
      {"kda_k1", kda_k1_workload},
#endif
  };
}

}  // namespace kdagen
