// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/staging.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/schedule/registers.h"
#include "kdagen/error.h"

using namespace kdagen::kda;

namespace kdagen::schedule {
namespace {

constexpr int kBoxAlignment = 128, kLargestBox = 256;
constexpr int kCounterBytes = 8, kTileRecordBytes = 40, kPointerBytes = 8;
constexpr int kReservedBytes = 1024;  // of shared memory, for each resident block

constexpr int kMostSlots = 4, kBytesInFlight = 64 * 1024;  // of a multiprocessor: latency times its share of the bandwidth
// What the compiler keeps in registers beside the values, and the least it is content with (measured on sm_90).
constexpr int kOtherRegisters = 19, kLeastRegisters = 56, kMostBlocks = 8;

int aligned(int bytes) { return (bytes + kBoxAlignment - 1) / kBoxAlignment * kBoxAlignment; }

/// A value that is only stored again gains nothing from a detour through shared memory.
bool is_computed_with(InputOp input) {
  return llvm::any_of(input.getResult().getUsers(), [](mlir::Operation* user) { return !mlir::isa<OutputOp>(user); });
}

/// Blocks that can be resident without spilling.
int blocks_by_registers(const Program& program) {
  int wanted = std::max(live_registers(program) + kOtherRegisters, kLeastRegisters), blocks = 1;
  auto granted = [&](int n) { return 65536 / (program.tiling.threads * n) / 8 * 8; };
  while (blocks < kMostBlocks && granted(blocks + 1) >= wanted) ++blocks;
  return blocks;
}

std::vector<StagedTensor> candidates(Program& program) {
  const Tiling& tiling = program.tiling;
  std::vector<StagedTensor> tensors;
  if (tiling.dim > kLargestBox || tiling.chunk > kLargestBox) return tensors;
  int offset = 0;
  for (auto input : program.kernel.block().getOps<InputOp>()) {
    mlir::Value value = input.getResult();
    if (section_of(value) != Section::Tile || !has_role(value, AxisRole::Feature) || input.getOptional()) continue;
    int row_bytes = tiling.dim * int(input.getStorage().getIntOrFloatBitWidth()) / 8;
    if (row_bytes % 16 != 0 || !is_computed_with(input)) continue;
    int bytes = row_bytes * (has_role(value, AxisRole::Rows) ? tiling.chunk : 1);
    tensors.push_back({input, offset, bytes});
    offset = aligned(offset + bytes);
  }
  return tensors;
}

int slot_bytes(const std::vector<StagedTensor>& tensors) {
  return tensors.empty() ? 0 : aligned(tensors.back().offset + tensors.back().bytes);
}

/// Counters, and one record more than slots: the tile, and a pointer to its first row in each tensor that is not staged.
int control_bytes(Program& program, const Staging& staging, int stages) {
  int pointers = 0;
  for (auto output : program.kernel.block().getOps<OutputOp>()) pointers += section_of(output.getValue()) == Section::Tile;
  for (auto input : program.kernel.block().getOps<InputOp>()) pointers += section_of(input.getResult()) == Section::Tile;
  return stages * kCounterBytes + (stages + 1) * (kTileRecordBytes + kPointerBytes * (pointers - int(staging.tensors.size())));
}

void lay_out(Program& program, int stages) {
  Staging& staging = program.staging;
  program.tiling.stages = stages;
  staging.control_offset = aligned(program.shared_floats * 4);
  staging.slots_offset = aligned(staging.control_offset + control_bytes(program, staging, stages));
  program.shared_floats = (staging.slots_offset + stages * staging.slot_bytes) / 4;
}

/// What is left to plain loads is asked for first, so that it arrives while the staged operands are computed with; what
/// takes one register of a staged operand is read first, so that it does not hold the slot.
void hoist_loads(Program& program) {
  auto plain = [&](const Statement& s) {
    bool staged = llvm::any_of(program.staging.tensors, [&](StagedTensor t) { return t.input.getOperation() == s.op; });
    return s.kind == Kind::Load && (!staged || !is_array(shape_of(s.value), s.map));
  };
  if (program.tiling.steps > 1) return;  // rows are those of a step
  for (Region& region : program.regions) std::stable_partition(region.statements.begin(), region.statements.end(), plain);
}

void place_restage(Program& program) {
  auto reads_operand = [&](const Statement& s) {
    return s.kind == Kind::Load && llvm::any_of(program.staging.tensors, [&](StagedTensor t) { return t.input.getOperation() == s.op; });
  };
  int region = -1, at = -1;
  for (int r = 0; r < int(program.regions.size()); ++r)
    for (int i = 0; i < int(program.regions[r].statements.size()); ++i)
      if (reads_operand(program.regions[r].statements[i])) region = r, at = i;
  if (program.regions[region].loop) ++region, at = -1;
  if (region == int(program.regions.size())) program.regions.emplace_back();
  for (int r = region; r < int(program.regions.size()); ++r) {
    auto& statements = program.regions[r].statements;
    for (int i = r == region ? at + 1 : 0; !program.regions[r].loop && i < int(statements.size()); ++i)
      if (statements[i].kind == Kind::Barrier) {
        statements.insert(statements.begin() + i + 1, {Kind::Restage, Map::Row, nullptr, {}, -1, ""});
        return;
      }
  }
  if (program.regions.back().loop) program.regions.emplace_back();
  auto& last = program.regions.back().statements;
  last.push_back({Kind::Barrier, Map::Row, nullptr, {}, -1, "operands"});
  last.push_back({Kind::Restage, Map::Row, nullptr, {}, -1, ""});
}
}  // namespace

void stage_operands(Program& program, int stages, bool choose_blocks, const StagingLimits& limits) {
  Tiling& tiling = program.tiling;
  tiling.stages = 0;
  if (stages == 0) return;
  if (!limits.possible) {
    if (stages > 0) throw UsageError("option schedule: stages=N needs sm_90 or later; stages=0 would pass");
    return;
  }
  Staging staging;
  staging.tensors = candidates(program);
  staging.slot_bytes = slot_bytes(staging.tensors);
  if (staging.tensors.empty()) return;
  auto needed = [&](int slots) {
    return aligned(aligned(program.shared_floats * 4) + control_bytes(program, staging, slots)) + slots * staging.slot_bytes;
  };
  auto resident = [&](int slots) {  // blocks that fit beside each other
    if (needed(slots) > limits.block_bytes) return 0;
    int by_memory = limits.processor_bytes / (needed(slots) + kReservedBytes);
    return std::min(by_memory, choose_blocks ? blocks_by_registers(program) : std::max(1, tiling.min_blocks));
  };
  if (stages > 0) {
    if (needed(stages) > limits.block_bytes)
      throw UsageError(fmt::format("option schedule: stages={} needs {} bytes of shared memory, a block may have {}; fewer stages would pass",
                                   stages, needed(stages), limits.block_bytes));
  } else {
    // Rather two blocks than two slots; then as many slots as keep enough bytes in flight.
    stages = resident(2) >= 2 || resident(1) < 2 ? 2 : 1;
    while (stages > 0 && resident(stages) == 0) --stages;
    if (stages == 0) return;
    while (stages < kMostSlots && resident(stages + 1) == resident(stages) && stages * resident(stages) * staging.slot_bytes < kBytesInFlight) ++stages;
  }
  if (choose_blocks) tiling.min_blocks = std::max(1, resident(stages));
  program.staging = staging;
  lay_out(program, stages);
  hoist_loads(program);
  place_restage(program);
}

}  // namespace kdagen::schedule
