// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/staging.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/schedule/registers.h"
#include "kdagen/error.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace kdagen::kda;

namespace kdagen::schedule {
namespace {

constexpr int kBoxAlignment = 128, kLargestBox = 256;
constexpr int kCounterBytes = 8, kTileRecordBytes = 40, kPointerBytes = 8;
constexpr int kReservedBytes = 1024;  // of shared memory, for each resident block

constexpr int kMostSlots = 4,
              kBytesInFlight = 64 * 1024;  // of a multiprocessor: latency times its share of the bandwidth

int aligned(int bytes) { return (bytes + kBoxAlignment - 1) / kBoxAlignment * kBoxAlignment; }

/// A value that is only stored again gains nothing from a detour through shared memory.
bool is_computed_with(InputOp input) {
  return llvm::any_of(input.getResult().getUsers(), [](mlir::Operation* user) { return !mlir::isa<OutputOp>(user); });
}

int row_bytes(const Tiling& tiling, InputOp input) {
  return tiling.dim * int(input.getStorage().getIntOrFloatBitWidth()) / 8;
}

bool may_be_staged(Program& program, InputOp input) {
  const Tiling& tiling = program.tiling;
  mlir::Value value = input.getResult();
  if (section_of(value) != Section::Tile || !has_role(value, AxisRole::Feature) || input.getOptional()) return false;
  // With several steps a value without rows is read outside of them.
  if (tiling.steps > 1 && !has_role(value, AxisRole::Rows)) return false;
  return row_bytes(tiling, input) % 16 == 0 && is_computed_with(input);
}

/// All steps of a region at once, where they fit: one wait in place of many.
void take_whole(std::vector<StagedTensor>& tensors, int region, int steps, int largest) {
  int offset = 0;
  std::vector<StagedTensor> whole = tensors;
  for (StagedTensor& tensor : whole) {
    if (tensor.region != region) continue;
    tensor.boxes = steps;
    tensor.offset = offset;
    tensor.bytes *= steps;
    offset = aligned(offset + tensor.bytes);
  }
  if (offset <= largest) tensors = std::move(whole);
}

std::vector<StagedTensor> candidates(Program& program) {
  const Tiling& tiling = program.tiling;
  int step_rows = std::min(tiling.chunk, tiling.rows_per_step);
  std::vector<StagedTensor> tensors;
  int largest = 0;
  if (tiling.dim > kLargestBox || step_rows > kLargestBox) return tensors;
  for (int r = 0; r < int(program.regions.size()); ++r) {
    int offset = 0;
    for (auto input : program.kernel.block().getOps<InputOp>()) {
      bool read = llvm::any_of(program.regions[r].statements,
                               [&](const Statement& s) { return s.kind == Kind::Load && s.op == input; });
      if (!read || !may_be_staged(program, input)) continue;
      int rows = has_role(input.getResult(), AxisRole::Rows) ? step_rows : 1, bytes = row_bytes(tiling, input) * rows;
      tensors.push_back({input, r, rows, 1, offset, bytes});
      offset = aligned(offset + bytes);
    }
    largest = std::max(largest, offset);
  }
  for (int r = 0; r < int(program.regions.size()); ++r)
    if (program.regions[r].loop) take_whole(tensors, r, tiling.steps, largest);
  return tensors;
}

int slot_bytes(const std::vector<StagedTensor>& tensors) {
  int bytes = 0;
  for (const StagedTensor& tensor : tensors) bytes = std::max(bytes, aligned(tensor.offset + tensor.bytes));
  return bytes;
}

int staged_inputs(const Staging& staging) {
  llvm::SmallPtrSet<mlir::Operation*, 16> inputs;
  for (StagedTensor tensor : staging.tensors) inputs.insert(tensor.input);
  return int(inputs.size());
}

/// Counters, and one record more than slots: the tile, and a pointer to its first row in each tensor that the copy
/// engine does not bring.
int control_bytes(Program& program, const Staging& staging, int stages) {
  int pointers = 0;
  for (auto output : program.kernel.block().getOps<OutputOp>())
    pointers += section_of(output.getValue()) == Section::Tile && !program.is_owned(output);
  for (auto input : program.kernel.block().getOps<InputOp>())
    pointers += section_of(input.getResult()) == Section::Tile && !program.is_owned(input);
  int counters = 0;
  if (staging.by_engine) {
    counters = stages * kCounterBytes;
    pointers -= staged_inputs(staging);
  }
  return counters + (stages + 1) * (kTileRecordBytes + kPointerBytes * pointers);
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
  for (Region& region : program.regions)
    std::stable_partition(region.statements.begin(), region.statements.end(), plain);
}

/// Row scalars that a tile computes with before its last barrier would make all wait for global memory: they are loaded
/// a tile ahead, behind the first barrier (the record of the next tile was written before it).
void load_ahead(Program& program) {
  if (program.tiling.steps > 1 || program.tiling.stages < 2) return;
  auto& statements = program.regions[0].statements;
  auto is_barrier = [](const Statement& s) { return s.kind == Kind::Barrier; };
  auto last_barrier = std::find_if(statements.rbegin(), statements.rend(), is_barrier).base();
  auto early = [&](const Statement& load) {
    return std::any_of(statements.begin(), last_barrier,
                       [&](const Statement& s) { return s.op && llvm::is_contained(s.op->getOperands(), load.value); });
  };
  std::vector<Statement> ahead;
  for (const Statement& s : statements) {
    if (s.kind != Kind::Load || s.map != Map::Row || shape_of(s.value) != Shape::Rows) continue;
    auto input = mlir::cast<InputOp>(s.op);
    if (input.getOptional() || !early(s)) continue;
    program.staging.ahead.push_back(input);
    ahead.push_back({Kind::LoadAhead, Map::Row, s.op, s.value, -1, ""});
  }
  auto first_barrier = std::find_if(statements.begin(), statements.end(), is_barrier);
  if (!ahead.empty()) statements.insert(std::next(first_barrier), ahead.begin(), ahead.end());
}

/// Behind the first barrier after the last read of an operand of the region. One operand that is read behind the last
/// barrier is read in front of it: its slot then travels while the rest is computed, and needs no barrier of its own.
void place_restage(Program& program, int region) {
  const Statement restage{Kind::Restage, Map::Row, nullptr, {}, -1, "", region};
  if (program.staging.whole(region)) {  // behind the loop, in what follows it
    auto& after = program.regions[region + 1].statements;
    after.insert(after.begin(), {{Kind::Barrier, Map::Row, nullptr, {}, -1, "operands"}, restage});
    return;
  }
  auto& statements = program.regions[region].statements;
  auto is_barrier = [](const Statement& s) { return s.kind == Kind::Barrier; };
  auto reads_operand = [&](const Statement& s) {
    return s.kind == Kind::Load && llvm::any_of(program.staging.tensors, [&](StagedTensor t) {
             return t.region == region && t.input.getOperation() == s.op;
           });
  };
  auto last_barrier = std::find_if(statements.rbegin(), statements.rend(), is_barrier).base();
  if (last_barrier != statements.begin() && std::count_if(last_barrier, statements.end(), reads_operand) == 1) {
    auto load = std::find_if(last_barrier, statements.end(), reads_operand);
    std::rotate(std::prev(last_barrier), load, std::next(load));
  }
  auto last = std::find_if(statements.rbegin(), statements.rend(), reads_operand).base();
  auto barrier = std::find_if(last, statements.end(), is_barrier);
  if (barrier == statements.end()) {
    statements.push_back({Kind::Barrier, Map::Row, nullptr, {}, -1, "operands"});
    barrier = std::prev(statements.end());
  }
  statements.insert(std::next(barrier), restage);
}
}  // namespace

void stage_operands(Program& program, int stages, bool choose_blocks, const StagingLimits& limits) {
  Tiling& tiling = program.tiling;
  tiling.stages = 0;
  if (stages == 0) return;
  Staging staging;
  staging.by_engine = limits.engine;
  staging.tensors = candidates(program);
  staging.slot_bytes = slot_bytes(staging.tensors);
  if (staging.tensors.empty()) return;
  auto needed = [&](int slots) {
    return aligned(aligned(program.shared_floats * 4) + control_bytes(program, staging, slots)) +
           slots * staging.slot_bytes;
  };
  auto resident = [&](int slots) {  // blocks that fit beside each other
    if (needed(slots) > limits.block_bytes) return 0;
    int by_memory = limits.processor_bytes / (needed(slots) + kReservedBytes);
    return std::min(by_memory, choose_blocks ? most_resident_blocks(program) : std::max(1, tiling.min_blocks));
  };
  if (stages > 0) {
    if (needed(stages) > limits.block_bytes)
      throw UsageError(fmt::format(
          "option schedule: stages={} needs {} bytes of shared memory, a block may have {}; fewer stages would pass",
          stages, needed(stages), limits.block_bytes));
  } else {
    // Rather two blocks than two slots; then as many slots as keep enough bytes in flight.
    stages = resident(2) >= 2 || resident(1) < 2 ? 2 : 1;
    while (stages > 0 && resident(stages) == 0) --stages;
    if (stages == 0) return;
    while (stages < kMostSlots && resident(stages + 1) == resident(stages) &&
           stages * resident(stages) * staging.slot_bytes < kBytesInFlight)
      ++stages;
  }
  if (choose_blocks) tiling.min_blocks = std::max(1, resident(stages));
  program.staging = staging;
  lay_out(program, stages);
  hoist_loads(program);
  load_ahead(program);
  for (int r = 0; r < int(program.regions.size()); ++r)
    if (program.staging.holds(r)) place_restage(program, r);
}

}  // namespace kdagen::schedule
