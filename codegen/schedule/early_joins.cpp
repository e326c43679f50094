// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/early_joins.h"

#include <algorithm>

#include "codegen/schedule/registers.h"

namespace kdagen::schedule {
namespace {

/// A single number is the same in both maps.
bool same_place(mlir::Value value, Map a, Map b) { return a == b || shape_of(value) == Shape::Single; }

bool reads(const Statement& s, mlir::Value value, Map map) {
  return same_place(value, s.map, map) && llvm::is_contained(register_reads(s), value);
}

/// Whether the statements of another region read a value from registers.
bool read_elsewhere(const Program& program, const Region& region, mlir::Value value, Map map) {
  return std::any_of(program.regions.begin(), program.regions.end(), [&](const Region& other) {
    return &other != &region && std::any_of(other.statements.begin(), other.statements.end(),
                                            [&](const Statement& s) { return reads(s, value, map); });
  });
}

/// Where statement `at` of a region should stand: behind what its operands wait for. `at` itself where it gains
/// nothing.
size_t better_place(const Program& program, const Region& region, size_t at) {
  const Statement& s = region.statements[at];
  if (s.kind != Kind::Pointwise) return at;
  size_t place = 0;
  int ending = 0;
  llvm::SmallVector<mlir::Value> seen;
  for (mlir::Value operand : s.op->getOperands()) {
    if (llvm::is_contained(seen, operand)) continue;
    seen.push_back(operand);
    size_t made = 0, last_other_use = 0;
    bool ends = is_array(shape_of(operand), s.map), here = false;
    for (size_t i = 0; i < region.statements.size(); ++i) {
      const Statement& other = region.statements[i];
      if (i < at && register_result(other) == operand && same_place(operand, other.map, s.map))
        made = i + 1, here = true;
      if (i == at || !reads(other, operand, s.map)) continue;
      if (i > at) ends = false;
      last_other_use = i + 1;
    }
    ends = ends && here && !read_elsewhere(program, region, operand, s.map);
    place = std::max({place, made, ends ? last_other_use : 0});
    ending += ends;
  }
  int beginning = is_array(shape_of(s.value), s.map);
  bool one_loop = std::all_of(region.statements.begin() + place, region.statements.begin() + at,
                              [](const Statement& between) { return between.kind == Kind::Pointwise; });
  return ending > beginning && !one_loop ? place : at;
}
}  // namespace

void join_early(Program& program) {
  for (Region& region : program.regions)
    for (size_t at = 0; at < region.statements.size(); ++at)
      if (size_t place = better_place(program, region, at); place < at)
        std::rotate(region.statements.begin() + place, region.statements.begin() + at,
                    region.statements.begin() + at + 1);
}

}  // namespace kdagen::schedule
