// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/homes.h"

#include "codegen/schedule/min_cut.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kdagen::kda;

namespace kdagen::schedule {

bool is_pointwise(Operation* op) {
  return !isa<InputOp, ConstantOp, IndexOp, OutputOp, SumOp, MaxReduceOp, InverseNormOp, ScanOp, LastOp, ShiftOp,
              BoundaryOp>(op);
}

bool reduces(Operation* op, AxisRole role) {
  if (!isa<SumOp, MaxReduceOp, InverseNormOp>(op)) return false;
  return has_role(op->getOperand(0), role) && !has_role(op->getResult(0), role);
}

bool lists(ArrayAttr names, AxisAttr axis) { return axis && llvm::is_contained(names, axis.getName()); }

llvm::SmallVector<Value> register_operands(Operation* op) {
  if (reduces(op, AxisRole::Feature) && isa<SumOp>(op))
    if (auto product = op->getOperand(0).getDefiningOp<MulOp>()) return {product.getA(), product.getB()};
  if (auto norm = dyn_cast<InverseNormOp>(op)) return {norm.getX()};
  return {op->operand_begin(), op->operand_end()};
}

Map Homes::map_of(Operation* op) const {
  if (auto output = dyn_cast<OutputOp>(op)) {
    Home home = of.lookup(output.getValue());
    if (home != Home::Any) return home == Home::Row ? Map::Row : Map::Column;
    return shape_of(output.getValue()) == Shape::Columns ? Map::Column : Map::Row;
  }
  Shape operand = op->getNumOperands() ? shape_of(op->getOperand(0)) : Shape::Single;
  if (reduces(op, AxisRole::Feature)) return Map::Row;
  if (isa<SumOp, MaxReduceOp, ScanOp, LastOp, ShiftOp>(op))
    return operand == Shape::Tile || operand == Shape::Columns ? Map::Column : Map::Row;
  return of.lookup(op->getResult(0)) == Home::Column ? Map::Column : Map::Row;
}

namespace {

/// The home a value has by the nature of its op; Any for what needs none; nothing where the search decides.
std::optional<Home> fixed_home(Operation* op, const Homes& homes) {
  Value result = op->getResult(0);
  Shape shape = shape_of(result);
  if (section_of(result) != Section::Tile || isa<InputOp, ConstantOp, IndexOp, BoundaryOp>(op) ||
      shape == Shape::Single)
    return Home::Any;
  if (!is_pointwise(op)) return shape == Shape::Rows ? Home::Row : Home::Column;
  bool anywhere = llvm::all_of(op->getOperands(), [&](Value operand) { return homes[operand] == Home::Any; });
  if (shape != Shape::Tile) return anywhere ? Home::Any : shape == Shape::Rows ? Home::Row : Home::Column;
  return std::nullopt;
}

/// Costs: a move of a tile through shared memory, of a row or column, a load of a tile in each map, a narrow store.
constexpr double kMove = 1.0, kSmallMove = 0.15, kRowLoad = 1.0, kColumnLoad = 1.2, kColumnStore = 0.25;

/// The labelling as a minimum cut: row map on the source's side, column map on the sink's.
class Labelling {
 public:
  Labelling(KernelOp kernel, Homes& homes, llvm::ArrayRef<Value> free) : kernel_(kernel), homes_(homes), free_(free) {
    for (Value value : free) nodes_[value] = cut_.add_node();
  }

  void solve() {
    llvm::MapVector<Value, llvm::SmallVector<int>> readers;
    for (Operation& op : kernel_.block())
      for (Value operand : register_operands(&op)) readers[operand].push_back(node_of(&op));
    for (auto& [value, nodes] : readers)
      if (section_of(value) == Section::Tile) add(value, nodes);
    auto row = cut_.source_side();
    for (Value value : free_) homes_.of[value] = row[nodes_[value]] ? Home::Row : Home::Column;
  }

 private:
  /// The node whose side says where an op reads its operands; a kernel's fixed places are the ends themselves.
  int node_of(Operation* op) {
    if (auto output = dyn_cast<OutputOp>(op)) return node_of_value(output.getValue(), homes_.map_of(op));
    if (op->getNumResults() && nodes_.count(op->getResult(0))) return nodes_[op->getResult(0)];
    return homes_.map_of(op) == Map::Row ? MinCut::source : MinCut::sink;
  }
  int node_of_value(Value value, Map otherwise) {
    if (auto it = nodes_.find(value); it != nodes_.end()) return it->second;
    return otherwise == Map::Row ? MinCut::source : MinCut::sink;
  }

  /// `weight` if `from` is on the row side and any reader on the column side.
  void costs_if_read_in_columns(int from, llvm::ArrayRef<int> readers, double weight) {
    int any = cut_.add_node();
    cut_.add_edge(from, any, weight);
    for (int reader : readers) cut_.add_edge(any, reader, MinCut::never);
  }
  /// `weight` if `to` is on the column side and any reader on the row side.
  void costs_if_read_in_rows(int to, llvm::ArrayRef<int> readers, double weight) {
    int any = cut_.add_node();
    cut_.add_edge(any, to, weight);
    for (int reader : readers) cut_.add_edge(reader, any, MinCut::never);
  }

  void add(Value value, llvm::ArrayRef<int> readers) {
    bool tile = shape_of(value) == Shape::Tile;
    if (homes_[value] == Home::Any) {
      if (!tile || !isa<InputOp>(value.getDefiningOp())) return;
      costs_if_read_in_rows(MinCut::sink, readers, kRowLoad);
      costs_if_read_in_columns(MinCut::source, readers, kColumnLoad);
      return;
    }
    int home = node_of_value(value, homes_[value] == Home::Row ? Map::Row : Map::Column);
    costs_if_read_in_columns(home, readers, tile ? kMove : kSmallMove);
    costs_if_read_in_rows(home, readers, tile ? kMove : kSmallMove);
    bool stored = llvm::any_of(value.getUsers(), [](Operation* user) { return isa<OutputOp>(user); });
    if (tile && stored) cut_.add_edge(MinCut::source, home, kColumnStore);
  }

  KernelOp kernel_;
  Homes& homes_;
  llvm::ArrayRef<Value> free_;
  MinCut cut_;
  llvm::DenseMap<Value, int> nodes_;
};
}  // namespace

Homes assign_homes(KernelOp kernel) {
  Homes base;
  llvm::SmallVector<Value> free;
  for (Operation& op : kernel.block()) {
    if (op.getNumResults() == 0) continue;
    auto home = fixed_home(&op, base);
    base.of[op.getResult(0)] = home.value_or(Home::Row);
    if (!home) free.push_back(op.getResult(0));
  }
  Labelling(kernel, base, free).solve();
  return base;
}

}  // namespace kdagen::schedule
