// SPDX-License-Identifier: Apache-2.0
// Collects what went wrong during a run and turns it into text afterwards: finding source lines starts another process,
// which must not happen on a fiber's small stack.
#pragma once
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/emulator/emulator.h"

namespace kdagen::emulator {

enum class FaultKind {
  race,
  race_between_blocks,
  uninitialised_read,
  out_of_bounds,
  read_only,
  misaligned,
  undefined_behaviour,
  divergence,
  copy,
  deadlock
};

/// "`text` at line <of pc>`continuation` at line <of earlier_pc>`end`"; a null pc leaves its place out.
struct Fault {
  FaultKind kind;
  std::string text;
  const void* pc = nullptr;
  std::string continuation = {};
  const void* earlier_pc = nullptr;
  std::string end = {};
};

class FaultLog {
 public:
  explicit FaultLog(unsigned max_reports) : max_reports_(max_reports) {}

  /// Keeps the fault unless the same kind was kept for the same two places. `about` tells faults without places apart.
  void add(Fault fault, int about = 0);
  bool full() const { return faults_.size() >= max_reports_; }
  bool seen(FaultKind kind, const void* pc, const void* earlier_pc, int about = 0) const {
    return seen_.count({kind, pc, earlier_pc, about}) != 0;
  }
  std::vector<std::string> reports(const Module& module) const;

 private:
  unsigned max_reports_;
  std::vector<Fault> faults_;
  std::set<std::tuple<FaultKind, const void*, const void*, int>> seen_;
};

}  // namespace kdagen::emulator
