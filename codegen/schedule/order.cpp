// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/order.h"

#include <map>
#include <set>
#include <tuple>

#include "kdagen/error.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kdagen::kda;

namespace kdagen::schedule {
namespace {

struct Item {
  Statement statement;
  int region = 0;
  int after = -1;  // an item that must come before
  bool done = false;
  enum class When : uint8_t { Now, EndOfPhase, EndOfTile } when = When::Now;
};

class Orderer {
 public:
  Orderer(Program& program, const Homes& homes, const Sweeps& sweeps)
      : program_(program), homes_(homes), sweeps_(sweeps) {
    multi_ = program.tiling.steps > 1;
    int sweep_count = int(sweeps.reverse.size());
    program_.regions.resize(multi_ ? 2 * sweep_count + 1 : 1);
    for (int s = 0; multi_ && s < sweep_count; ++s) {
      program_.regions[2 * s + 1].loop = true;
      program_.regions[2 * s + 1].reverse = sweeps.reverse[s];
    }
  }

  void run(const llvm::DenseSet<Operation*>& apart) {
    for (Operation& op : program_.kernel.block())
      if (!apart.contains(&op)) create_items(&op);
    for (size_t before = items_.size() + 1;
         before != items_.size();) {  // a move may need further moves in an earlier region
      before = items_.size();
      for (int region = 0; region < int(program_.regions.size()); ++region) create_moves(region);
    }
    for (int region = 0; region < int(program_.regions.size()); ++region) schedule(region);
  }

 private:
  // ---- items -----------------------------------------------------------------------------------------------------
  static bool has_rows(Value value) { return has_role(value, AxisRole::Rows); }

  /// Made from inputs alone, element by element. Nothing waits for it, so its loads get time to arrive: until the next
  /// barrier, or, where it takes one register or two, until the tile's end.
  static bool is_local(Value value) {
    Operation* op = value.getDefiningOp();
    if (!is_pointwise(op)) return op->getNumOperands() == 0;
    return llvm::all_of(op->getOperands(), is_local);
  }

  /// The region in which an op with this operand or result is computed.
  int region_of(Operation* op, bool with_rows) const {
    if (!multi_) return 0;
    int sweep = sweeps_.of.lookup(op);
    return with_rows ? 2 * sweep + 1 : 2 * sweep;
  }
  int region_of_value(Value value) const { return region_of(value.getDefiningOp(), has_rows(value)); }

  int add_item(Kind kind, Map map, Operation* op, Value value, int region, int buffer = -1, int after = -1) {
    Item item;
    item.statement = {kind, map, op, value, buffer, ""};
    item.region = region;
    item.after = after;
    items_.push_back(item);
    return int(items_.size()) - 1;
  }

  int add_buffer(Value value, Layout layout, const std::string& suffix) {
    program_.buffers.push_back({suffix, layout, value, 0});
    return int(program_.buffers.size()) - 1;
  }

  /// The item that writes `value` to shared memory in its home map; made once.
  int publish(Value value, int region, bool chunk_long) {
    Shape shape = shape_of(value);
    auto key = std::make_pair(value.getAsOpaquePointer(), shape == Shape::Tile && !chunk_long && multi_ ? region : -1);
    if (auto it = published_.find(key); it != published_.end()) return it->second;
    if (auto it = published_.find({key.first, -1}); it != published_.end()) return it->second;
    Layout layout = shape == Shape::Tile   ? (chunk_long && multi_ ? Layout::ChunkTile : Layout::StepTile)
                    : shape == Shape::Rows ? Layout::ChunkRows
                                           : Layout::Columns;
    Map map = homes_[value] == Home::Column ? Map::Column : Map::Row;
    int item = add_item(Kind::Publish, map, nullptr, value, region, add_buffer(value, layout, "shared"));
    return published_[key] = item;
  }

  void create_items(Operation* op) {
    if (auto output = dyn_cast<OutputOp>(op)) {
      if (section_of(output.getValue()) == Section::Tile) {
        int item =
            add_item(Kind::Store, homes_.map_of(op), op, output.getValue(), region_of(op, has_rows(output.getValue())));
        if (is_local(output.getValue()))
          items_[item].when =
              is_array(shape_of(output.getValue()), homes_.map_of(op)) ? Item::When::EndOfPhase : Item::When::EndOfTile;
      }
      return;
    }
    if (isa<BoundaryOp>(op)) {  // whoever needs it reads it there
      publish(op->getOperand(0), region_of_value(op->getOperand(0)), true);
      return;
    }
    if (op->getNumOperands() == 0 || section_of(op->getOperand(0)) != Section::Tile || is_pointwise(op)) return;
    Value x = op->getOperand(0), result = op->getResult(0);
    Map map = homes_.map_of(op);
    int reads = region_of(op, has_rows(result));
    int writes = has_rows(x) && multi_ ? 2 * sweeps_.of.lookup(x.getDefiningOp()) + 1 : reads;
    if (isa<ScanOp>(op)) writes = reads;
    bool tile = shape_of(x) == Shape::Tile;
    if (section_of(result) != Section::Tile) {
      add_item(Kind::Accumulate, map, op, x, region_of_value(x));
      program_.parameter_sums.push_back({cast<SumOp>(op), shape_of(x), ""});
    } else if (reduces(op, AxisRole::Feature)) {
      anchors_[op] = add_item(Kind::RowReduce, Map::Row, op, result, reads);
    } else if (isa<ScanOp>(op) && tile) {
      int blocks = add_item(Kind::ScanBlocks, map, op, x, writes, add_buffer(x, Layout::BlockColumns, "blocks"));
      if (!cast<ScanOp>(op).getReverse()) block_sums_[x] = blocks;
      anchors_[op] = add_item(Kind::ScanCarry, map, op, result, reads, items_[blocks].statement.buffer, blocks);
    } else if (isa<ScanOp>(op)) {
      // A sum of an earlier sweep is in registers there alone.
      int source = publish(x, anchors_.count(x.getDefiningOp()) ? region_of_value(x) : writes, true);
      anchors_[op] = add_item(Kind::RowScan, map, op, result, reads, items_[source].statement.buffer, source);
    } else if (isa<LastOp>(op)) {
      int source = add_item(Kind::PublishLast, map, op, x, writes, add_buffer(result, Layout::Columns, "last"));
      anchors_[op] = add_item(Kind::Fetch, map, nullptr, result, reads, items_[source].statement.buffer, source);
    } else if (isa<ShiftOp>(op)) {
      int source = publish(x, writes, true);
      anchors_[op] = add_item(Kind::FetchShifted, map, op, result, reads, items_[source].statement.buffer, source);
    } else if (tile) {
      bool shared = isa<SumOp>(op) && block_sums_.count(x) && items_[block_sums_[x]].region == writes;
      int source = shared
                       ? block_sums_[x]
                       : add_item(Kind::BlockTotals, map, op, x, writes, add_buffer(x, Layout::BlockColumns, "blocks"));
      if (isa<SumOp>(op)) block_sums_[x] = source;
      anchors_[op] = add_item(Kind::Total, map, op, result, reads, items_[source].statement.buffer, source);
    } else {
      int source = publish(x, writes, true);
      anchors_[op] = add_item(Kind::RowTotal, map, op, result, reads, items_[source].statement.buffer, source);
    }
  }

  /// Adds the moves through shared memory that the items of a region need, following element-wise values downwards.
  void create_moves(int region) {
    llvm::DenseSet<std::pair<void*, int>> seen;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].region != region) continue;
      Statement s = items_[i].statement;
      if (s.kind == Kind::Publish) {
        visit_operands(s.value, s.map, region, seen);
        continue;
      }
      if (s.kind == Kind::ScanCarry || s.kind == Kind::Total || s.kind == Kind::RowScan || s.kind == Kind::RowTotal ||
          s.kind == Kind::Fetch || s.kind == Kind::FetchShifted)
        continue;
      for (Value operand : register_operands(s.op)) visit(operand, s.map, region, seen);
    }
  }

  void visit_operands(Value value, Map map, int region, llvm::DenseSet<std::pair<void*, int>>& seen) {
    Operation* op = value.getDefiningOp();
    if (anchors_.count(op) || !is_pointwise(op)) return;
    for (Value operand : op->getOperands()) visit(operand, map, region, seen);
  }

  void visit(Value value, Map map, int region, llvm::DenseSet<std::pair<void*, int>>& seen) {
    if (!seen.insert({value.getAsOpaquePointer(), int(map)}).second) return;
    Operation* op = value.getDefiningOp();
    if (isa<BoundaryOp>(op)) return;
    bool earlier = multi_ && has_rows(value) && anchors_.count(op) && region_of_value(value) < region;
    if (earlier) {  // a sum or scan of an earlier sweep, kept for the whole chunk
      publish(value, region_of_value(value), true);
      return;
    }
    Home home = homes_[value];
    if (home != Home::Any && (home == Home::Row) != (map == Map::Row)) {
      int made = multi_ && !has_rows(value) ? region_of_value(value) : region;
      publish(value, made, false);
      if (made == region) visit_operands(value, other(map), region, seen);
      return;
    }
    visit_operands(value, map, region, seen);
  }

  // ---- scheduling ------------------------------------------------------------------------------------------------
  using Key = std::pair<void*, int>;
  static Key key(Value value, Map map) { return {value.getAsOpaquePointer(), int(map)}; }
  bool available(Value value, Map map) const {
    return tile_scope_.count(key(value, map)) || region_scope_.count(key(value, map)) ||
           prologue_scope_.count(key(value, map));
  }

  /// The published copy of a value that this region may read: its item, or -1.
  int copy_of(Value value, int region) const {
    for (int at : {region, -1})
      if (auto it = published_.find({value.getAsOpaquePointer(), at}); it != published_.end()) return it->second;
    return -1;
  }

  enum class State { Ready, NeedsBarrier, Waiting };
  static State worse(State a, State b) { return std::max(a, b); }

  State state(Value value, Map map, int region) const {
    if (available(value, map)) return State::Ready;
    Operation* op = value.getDefiningOp();
    if (isa<BoundaryOp>(op)) {
      int copy = copy_of(op->getOperand(0), region);
      if (copy < 0 || !items_[copy].done) return State::Waiting;
      return dirty_.count(items_[copy].statement.buffer) ? State::NeedsBarrier : State::Ready;
    }
    Home home = homes_[value];
    bool homed_here = home == Home::Any || (home == Home::Row) == (map == Map::Row);
    if (anchors_.count(op) || !homed_here) {
      int copy = copy_of(value, region);
      if (copy < 0 || !items_[copy].done) {
        if (anchors_.count(op) || !is_pointwise(op)) return State::Waiting;
        return State::Waiting;
      }
      return dirty_.count(items_[copy].statement.buffer) ? State::NeedsBarrier : State::Ready;
    }
    if (!is_pointwise(op)) return State::Ready;  // inputs, constants, indices
    State result = State::Ready;
    for (Value operand : op->getOperands()) result = worse(result, state(operand, map, region));
    return result;
  }

  State state(const Item& item, int region) const {
    if (item.after >= 0 && !items_[item.after].done) return State::Waiting;
    const Statement& s = item.statement;
    switch (s.kind) {
      case Kind::ScanCarry:  // the sums inside the blocks are in registers, the rest in the buffer
      case Kind::Total:
      case Kind::RowScan:
      case Kind::RowTotal:
      case Kind::Fetch:
      case Kind::FetchShifted:
        return dirty_.count(s.buffer) ? State::NeedsBarrier : State::Ready;
      case Kind::Publish:
        return publish_state(s, region);
      default: {
        State result = State::Ready;
        for (Value operand : register_operands(s.op)) result = worse(result, state(operand, s.map, region));
        return result;
      }
    }
  }

  State publish_state(const Statement& s, int region) const {
    if (available(s.value, s.map)) return State::Ready;
    Operation* op = s.value.getDefiningOp();
    if (anchors_.count(op)) return State::Waiting;
    State result = State::Ready;
    for (Value operand : op->getOperands()) result = worse(result, state(operand, s.map, region));
    return result;
  }

  std::vector<Statement>& target(Value value) {
    return section_of(value) == Section::Prologue ? program_.prologue : program_.regions[region_].statements;
  }

  void make_available(Value value, Map map) {
    bool both = shape_of(value) == Shape::Single;
    for (Map m : {Map::Row, Map::Column}) {
      if (m != map && !both) continue;
      if (section_of(value) == Section::Prologue)
        prologue_scope_.insert(key(value, m));
      else
        (program_.regions[region_].loop ? region_scope_ : tile_scope_).insert(key(value, m));
    }
  }

  /// Emits what it takes to have `value` in registers in this map.
  void need(Value value, Map map) {
    if (available(value, map)) return;
    Operation* op = value.getDefiningOp();
    Home home = homes_[value];
    bool homed_here = home == Home::Any || (home == Home::Row) == (map == Map::Row);
    if (anchors_.count(op) || !homed_here) {
      int copy = copy_of(value, region_);
      if (copy < 0) throw KdagenBug("schedule: a value is needed before it is published");
      program_.regions[region_].statements.push_back(
          {Kind::Fetch, map, nullptr, value, items_[copy].statement.buffer, ""});
    } else if (isa<BoundaryOp>(op)) {
      int copy = copy_of(op->getOperand(0), region_);
      if (copy < 0) throw KdagenBug("schedule: a boundary is needed before its rows are published");
      program_.regions[region_].statements.push_back(
          {Kind::FetchBoundary, map, op, value, items_[copy].statement.buffer, ""});
    } else if (isa<InputOp>(op)) {
      target(value).push_back({Kind::Load, map, op, value, -1, ""});
    } else if (is_pointwise(op)) {
      for (Value operand : op->getOperands()) need(operand, map);
      target(value).push_back({Kind::Pointwise, map, op, value, -1, ""});
    } else if (reduces(op, AxisRole::Feature)) {  // of parameters: every row of lanes has the whole sum
      for (Value operand : register_operands(op)) need(operand, Map::Row);
      target(value).push_back({Kind::RowReduce, Map::Row, op, value, -1, ""});
    } else if (!isa<ConstantOp, IndexOp>(op)) {
      throw KdagenBug("schedule: a value is needed that no statement makes");
    }
    make_available(value, map);
  }

  void emit(Item& item) {
    Statement& s = item.statement;
    auto& statements = program_.regions[region_].statements;
    switch (s.kind) {
      case Kind::Publish:
        need(s.value, s.map);
        break;
      case Kind::ScanCarry:
      case Kind::Total:
      case Kind::RowScan:
      case Kind::RowTotal:
      case Kind::Fetch:
      case Kind::FetchShifted:
        break;
      default:
        for (Value operand : register_operands(s.op)) need(operand, s.map);
    }
    statements.push_back(s);
    item.done = true;
    if (s.buffer >= 0 && writes(s.kind)) dirty_.insert(s.buffer);
    if (s.op && s.op->getNumResults() && s.value == s.op->getResult(0)) make_available(s.value, s.map);
    if (s.kind == Kind::Fetch) make_available(s.value, s.map);
  }

  static bool writes(Kind kind) {
    return kind == Kind::Publish || kind == Kind::ScanBlocks || kind == Kind::BlockTotals || kind == Kind::PublishLast;
  }

  void schedule(int region) {
    region_ = region;
    region_scope_.clear();
    dirty_.clear();
    Map current = Map::Row;
    for (;;) {
      Item* best = nullptr;
      State best_state = State::Waiting;
      for (Item& item : items_) {
        if (item.done || item.region != region) continue;
        State now = state(item, region);
        if (now == State::Waiting) continue;
        auto rank = [&](const Item& i, State s) {
          return std::make_tuple(i.when == Item::When::EndOfTile, s, i.when == Item::When::EndOfPhase,
                                 i.statement.map != current);
        };
        bool better = !best || rank(item, now) < rank(*best, best_state);
        if (better) {
          best = &item;
          best_state = now;
        }
      }
      if (!best) break;
      if (best_state == State::NeedsBarrier) {
        dirty_.clear();
        continue;
      }
      current = best->statement.map;
      emit(*best);
    }
    for (const Item& item : items_)
      if (!item.done && item.region == region) throw KdagenBug("schedule: an item of a tile never becomes ready");
  }

  Program& program_;
  const Homes& homes_;
  const Sweeps& sweeps_;
  bool multi_ = false;
  int region_ = 0;
  std::vector<Item> items_;
  llvm::DenseMap<Operation*, int> anchors_;         // the item that makes an op's result
  llvm::DenseMap<Value, int> block_sums_;           // sums of blocks of 8 rows of a value
  std::map<std::pair<void*, int>, int> published_;  // (value, region or -1) -> item
  std::set<Key> tile_scope_, region_scope_, prologue_scope_;
  std::set<int> dirty_;  // buffers written since the last barrier
};
}  // namespace

void order_statements(Program& program, const Homes& homes, const Sweeps& sweeps,
                      const llvm::DenseSet<Operation*>& apart) {
  Orderer(program, homes, sweeps).run(apart);
}

}  // namespace kdagen::schedule
