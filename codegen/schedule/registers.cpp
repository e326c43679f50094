// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/registers.h"

#include <algorithm>
#include <map>

#include "codegen/schedule/homes.h"

using namespace kdagen::kda;

namespace kdagen::schedule {
namespace {
using Key = std::pair<void*, int>;

Key key(mlir::Value value, Map map) { return {value.getAsOpaquePointer(), int(map)}; }

/// What a statement reads from registers.
llvm::SmallVector<mlir::Value> operands_of(const Statement& s) {
  switch (s.kind) {
    case Kind::Load:
    case Kind::Fetch:
    case Kind::FetchShifted:
    case Kind::RowScan:
    case Kind::RowTotal:
    case Kind::Total:
    case Kind::Barrier:
    case Kind::LoadAhead:
    case Kind::Restage: return {};
    case Kind::ScanCarry: return {s.op->getResult(0)};
    case Kind::Pointwise: return llvm::SmallVector<mlir::Value>(s.op->getOperands());
    case Kind::RowReduce: return llvm::SmallVector<mlir::Value>(register_operands(s.op));
    default: return {s.value};
  }
}

/// What it leaves in registers.
mlir::Value result_of(const Statement& s) {
  switch (s.kind) {
    case Kind::ScanBlocks: return s.op->getResult(0);
    case Kind::Publish:
    case Kind::BlockTotals:
    case Kind::PublishLast:
    case Kind::Store:
    case Kind::Accumulate:
    case Kind::Barrier:
    case Kind::LoadAhead:
    case Kind::Restage: return {};
    default: return s.value;
  }
}
}  // namespace

int live_registers(const Program& program) {
  std::vector<const Statement*> order;
  for (const Region& region : program.regions)
    for (const Statement& s : region.statements) order.push_back(&s);
  struct Life { int first, last, size; };
  std::map<Key, Life> lives;
  // A run of element-wise statements is one loop: what lives inside it alone takes one register.
  std::vector<int> loop(order.size());
  for (size_t i = 1; i < order.size(); ++i)
    loop[i] = loop[i - 1] + !(order[i]->kind == Kind::Pointwise && order[i - 1]->kind == Kind::Pointwise);
  for (size_t i = 0; i < order.size(); ++i) {
    for (mlir::Value operand : operands_of(*order[i]))
      if (auto it = lives.find(key(operand, order[i]->map)); it != lives.end()) it->second.last = loop[i];
    if (mlir::Value value = result_of(*order[i]))
      lives.try_emplace(key(value, order[i]->map), Life{loop[i], loop[i], is_array(shape_of(value), order[i]->map) ? 8 : 1});
  }
  int most = 0;
  for (int at = 0; !loop.empty() && at <= loop.back(); ++at) {
    int alive = 0;
    for (const auto& [value, life] : lives) alive += life.first <= at && at < life.last ? life.size : 0;
    most = std::max(most, alive);
  }
  return most;
}

int most_resident_blocks(const Program& program) {
  // What the compiler keeps in registers beside the values, and the least it is content with (measured on sm_90).
  constexpr int others = 19, least = 56, most = 8, file = 65536, granularity = 8;
  int wanted = std::max(live_registers(program) + others, least), blocks = 1;
  auto granted = [&](int n) { return file / (program.tiling.threads * n) / granularity * granularity; };
  while (blocks < most && granted(blocks + 1) >= wanted) ++blocks;
  return blocks;
}

}  // namespace kdagen::schedule
