// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/registers.h"

#include <algorithm>
#include <map>

#include "codegen/schedule/homes.h"

using namespace kdagen::kda;

namespace kdagen::schedule {
llvm::SmallVector<mlir::Value> register_reads(const Statement& s) {
  switch (s.kind) {
    case Kind::Load:
    case Kind::Fetch:
    case Kind::FetchShifted:
    case Kind::FetchBoundary:
    case Kind::RowScan:
    case Kind::RowTotal:
    case Kind::Total:
    case Kind::Barrier:
    case Kind::LoadAhead:
    case Kind::Restage:
      return {};
    case Kind::ScanCarry:
      return {s.op->getResult(0)};
    case Kind::Pointwise:
      return llvm::SmallVector<mlir::Value>(s.op->getOperands());
    case Kind::RowReduce:
      return llvm::SmallVector<mlir::Value>(register_operands(s.op));
    default:
      return {s.value};
  }
}

mlir::Value register_result(const Statement& s) {
  switch (s.kind) {
    case Kind::ScanBlocks:
      return s.op->getResult(0);
    case Kind::Publish:
    case Kind::BlockTotals:
    case Kind::PublishLast:
    case Kind::Store:
    case Kind::Accumulate:
    case Kind::Barrier:
    case Kind::LoadAhead:
    case Kind::Restage:
      return {};
    default:
      return s.value;
  }
}

namespace {
/// Registers of a thread that hold a value. Numbers of 16 bits stay as they were loaded, in pairs, until they are
/// computed with.
int registers_of(const Statement& s, mlir::Value value) {
  if (!is_array(shape_of(value), s.map)) return 1;
  auto input = mlir::dyn_cast_or_null<InputOp>(s.op);
  bool pairs = s.kind == Kind::Load && s.map == Map::Row && input && input.getStorage().getIntOrFloatBitWidth() == 16;
  return pairs ? 4 : 8;
}

/// A value in a map; what a loop makes is its own (`region`), and made again by the next.
struct Key {
  void* value;
  Map map;
  int region;  // -1: of the whole tile
  auto operator<=>(const Key&) const = default;
};

struct Life {
  int first, last, size;
};

/// Numbers the statements of a tile; a run of element-wise statements is one loop, and has one number: what lives
/// inside it alone takes one register.
class Lives {
 public:
  explicit Lives(const Program& program) {
    for (int r = 0; r < int(program.regions.size()); ++r) {
      const Region& region = program.regions[r];
      bool run = false;
      for (const Statement& s : region.statements) {
        at_ += !(run && s.kind == Kind::Pointwise);
        run = s.kind == Kind::Pointwise;
        for (mlir::Value operand : register_reads(s)) read(operand, s.map, r);
        if (mlir::Value value = register_result(s))
          lives_.try_emplace(Key{value.getAsOpaquePointer(), s.map, region.loop ? r : -1},
                             Life{at_, at_, registers_of(s, value)});
      }
      for (Life* life : read_here_)
        if (region.loop) life->last = at_ + 1;  // each step reads it
      read_here_.clear();
      ++at_;
    }
  }

  int most() const {
    int most = 0;
    for (int at = 0; at <= at_; ++at) {
      int alive = 0;
      for (const auto& [key, life] : lives_) alive += life.first <= at && at < life.last ? life.size : 0;
      most = std::max(most, alive);
    }
    return most;
  }

 private:
  void read(mlir::Value value, Map map, int region) {
    if (auto it = lives_.find({value.getAsOpaquePointer(), map, region}); it != lives_.end()) {
      it->second.last = at_;
      return;
    }
    auto it = lives_.find({value.getAsOpaquePointer(), map, -1});
    if (it == lives_.end()) return;
    it->second.last = at_;
    read_here_.push_back(&it->second);
  }

  std::map<Key, Life> lives_;
  std::vector<Life*> read_here_;  // values of the whole tile
  int at_ = 0;
};
}  // namespace

int live_registers(const Program& program) { return Lives(program).most(); }

int most_resident_blocks(const Program& program) {
  // What the compiler keeps in registers beside the values, and the least it is content with (measured on sm_90).
  constexpr int others = 19, least = 56, most = 8, file = 65536, granularity = 8;
  int wanted = std::max(live_registers(program) + others, least), blocks = 1;
  auto granted = [&](int n) { return file / (program.tiling.threads * n) / granularity * granularity; };
  while (blocks < most && granted(blocks + 1) >= wanted) ++blocks;
  return blocks;
}

}  // namespace kdagen::schedule
