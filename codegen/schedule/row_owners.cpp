// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/row_owners.h"

#include <algorithm>

#include "codegen/schedule/homes.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace kdagen::kda;

namespace kdagen::schedule {
namespace {

constexpr int kWarp = 32;

bool in_tile(Value value) { return section_of(value) == Section::Tile; }
bool is_leaf(Operation* op) { return isa<InputOp, ConstantOp, IndexOp>(op); }
bool is_number(Value value) { return shape_of(value) == Shape::Rows || shape_of(value) == Shape::Single; }

/// Whether the op could be done by owners, for all that its own operands say.
bool is_candidate(Operation* op, const Tiling& tiling) {
  if (is_leaf(op) || op->getNumOperands() == 0) return false;
  if (!llvm::all_of(op->getOperands(), is_number) || !llvm::any_of(op->getOperands(), in_tile)) return false;
  if (isa<OutputOp>(op) || is_pointwise(op)) return true;
  if (isa<SumOp>(op) && !in_tile(op->getResult(0))) return tiling.owned_tiles() >= kTilesPerSegment;  // over the tiles
  return isa<ScanOp, SumOp>(op) && kWarp % tiling.chunk == 0;
}

class Statements {
 public:
  Statements(Program& program, const llvm::DenseSet<Operation*>& ops) : program_(program), ops_(ops) {
    // Owners' numbers are made in the row map; a column's number there is no row's.
    for (const Statement& s : program.prologue)
      if (s.map == Map::Row || shape_of(s.value) == Shape::Single) done_.insert(s.value);
  }

  void run() {
    for (Operation& op : program_.kernel.block())
      if (ops_.contains(&op)) add(&op);
    // All loads are asked for before the first is waited for; values to be stored have had the most time.
    auto& statements = program_.owner_statements;
    std::stable_partition(statements.begin(), statements.end(),
                          [](const Statement& s) { return s.kind == Kind::Load; });
    std::stable_partition(statements.begin(), statements.end(),
                          [](const Statement& s) { return s.kind != Kind::Store; });
  }

 private:
  void push(Kind kind, Operation* op, Value value, int buffer = -1, const char* note = "") {
    program_.owner_statements.push_back({kind, Map::Row, op, value, buffer, note});
  }

  /// Inputs and what is made of parameters alone; the rest is there by the block's order.
  void need(Value value) {
    Operation* op = value.getDefiningOp();
    if (ops_.contains(op) || isa<ConstantOp, IndexOp>(op) || !done_.insert(value).second) return;
    for (Value operand : register_operands(op)) need(operand);
    Kind kind = isa<InputOp>(op) ? Kind::Load : reduces(op, AxisRole::Feature) ? Kind::RowReduce : Kind::Pointwise;
    (in_tile(value) ? program_.owner_statements : program_.prologue).push_back({kind, Map::Row, op, value, -1, ""});
  }

  /// The value of every row in shared memory, for its owners to read each other's.
  int published(Value value) {
    auto [at, fresh] = buffers_.try_emplace(value, int(program_.buffers.size()));
    if (!fresh) return at->second;
    program_.buffers.push_back({"shared", Layout::OwnerRows, value, 0});
    push(Kind::Barrier, nullptr, {}, at->second, "free");
    push(Kind::Publish, nullptr, value, at->second);
    push(Kind::Barrier, nullptr, {}, at->second, "complete");
    return at->second;
  }

  void add(Operation* op) {
    for (Value operand : op->getOperands()) need(operand);
    if (auto output = dyn_cast<OutputOp>(op)) return push(Kind::Store, op, output.getValue());
    Value result = op->getResult(0);
    if (is_pointwise(op)) return push(Kind::Pointwise, op, result);
    if (!in_tile(result)) {
      program_.parameter_sums.push_back({cast<SumOp>(op), shape_of(op->getOperand(0)), "", true});
      program_.buffers.push_back({"totals", Layout::OwnerTiles, op->getOperand(0), 0});
      return push(Kind::Accumulate, op, op->getOperand(0), int(program_.buffers.size()) - 1);
    }
    int buffer = published(op->getOperand(0));
    push(isa<ScanOp>(op) ? Kind::RowScan : Kind::RowTotal, op, result, buffer);
  }

  Program& program_;
  const llvm::DenseSet<Operation*>& ops_;
  llvm::DenseSet<Value> done_;
  llvm::DenseMap<Value, int> buffers_;
};

}  // namespace

llvm::DenseSet<Operation*> find_row_owners(KernelOp kernel, const Tiling& tiling) {
  llvm::DenseSet<Operation*> ops;
  if (tiling.lanes < 2 || tiling.chunk > tiling.threads) return ops;
  for (Operation& op : kernel.block())
    if (is_candidate(&op, tiling)) ops.insert(&op);
  auto users_belong = [&](Value value) {
    return llvm::all_of(value.getUsers(), [&](Operation* user) { return ops.contains(user); });
  };
  auto belongs = [&](Operation* op) {
    for (Value operand : op->getOperands()) {
      Operation* from = operand.getDefiningOp();
      if (!in_tile(operand) || isa<ConstantOp, IndexOp>(from)) continue;
      if (isa<InputOp>(from) ? !users_belong(operand) : !ops.contains(from)) return false;
    }
    // What is summed over the tiles goes on elsewhere.
    return op->getNumResults() == 0 || !in_tile(op->getResult(0)) || users_belong(op->getResult(0));
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation& op : kernel.block())
      if (ops.contains(&op) && !belongs(&op)) changed = ops.erase(&op);
  }
  return ops;
}

void order_row_owners(Program& program, const llvm::DenseSet<Operation*>& ops) { Statements(program, ops).run(); }

}  // namespace kdagen::schedule
