// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/statements.h"

#include <cmath>

#include <fmt/format.h>

#include "codegen/schedule/homes.h"
#include "kdagen/error.h"

using namespace kdagen::kda;
using namespace kdagen::schedule;

namespace kdagen::emit {

std::string storage_type(mlir::Type storage) {
  if (storage.isBF16()) return "bf16";
  if (storage.isF16()) return "fp16";
  if (storage.isInteger(8)) return "signed char";
  if (storage.isInteger(32)) return "int";
  return "float";
}

std::string value_type(mlir::Value value) {
  if (FixedType fixed = fixed_type(value)) return fmt::format("Fixed<{}>", fixed.getFractionBits());
  return "float";
}

std::string zero_of(mlir::Value value) { return fixed_type(value) ? value_type(value) + "{0}" : "0.0f"; }

bool has_integers(KernelOp kernel) {
  return llvm::any_of(kernel.block().getOps<OutputOp>(),
                      [](OutputOp output) { return output.getStorage().isInteger(32); });
}

bool has_fixed_point(KernelOp kernel) {
  return llvm::any_of(kernel.block(),
                      [](mlir::Operation& op) { return op.getNumResults() == 1 && fixed_type(op.getResult(0)); });
}

/// 58 units of 1 read Fixed<24>{58 * (1 << 24)}.
static std::string fixed_constant(mlir::Value value, double number) {
  int bits = int(fixed_type(value).getFractionBits());
  if (number == double(int(number))) return fmt::format("{}{{{} * (1 << {})}}", value_type(value), int(number), bits);
  return fmt::format("{}{{{}}}", value_type(value), std::lrint(std::ldexp(number, bits)));
}

StatementPrinter::StatementPrinter(const Program& program, const Names& names, Writer& out, Place place)
    : program_(program), names_(names), out_(out), place_(place) {}

std::string StatementPrinter::tag(mlir::Operation* op) const {
  std::string line = spec_line(op->getLoc());
  return line.empty() ? "" : "[" + line.substr(line.rfind('/') + 1) + "]";
}

// ---- grouping: consecutive element-wise statements share a loop ---------------------------------------------------

static bool groups_with(const Statement& a, const Statement& b) {
  return a.kind == Kind::Pointwise && b.kind == Kind::Pointwise && a.map == b.map &&
         is_array(shape_of(a.value), a.map) == is_array(shape_of(b.value), b.map);
}

bool StatementPrinter::sums_products(const Statement& s) const {
  return s.kind == Kind::RowReduce && register_operands(s.op).size() == 2;
}

void StatementPrinter::count_uses(const std::vector<Statement>& statements) {
  int group = 0;
  for (size_t i = 0; i < statements.size(); ++i) {
    const Statement& s = statements[i];
    if (i == 0 || !groups_with(statements[i - 1], s)) ++group;
    auto use = [&](mlir::Value value, bool pointwise) {
      Key key = key_of(value, s.map);
      ++uses_[key];
      if (pointwise && group_of_.count(key) && group_of_[key] == group) ++group_uses_[key];
    };
    if (s.kind == Kind::Pointwise) {
      for (mlir::Value operand : s.op->getOperands()) use(operand, true);
      group_of_[key_of(s.value, s.map)] = group;
    } else if (s.kind == Kind::RowReduce) {
      for (mlir::Value operand : register_operands(s.op)) use(operand, false);
    } else if (s.op && s.kind != Kind::ScanCarry && s.kind != Kind::Total && s.kind != Kind::Load &&
               s.kind != Kind::FetchBoundary) {
      for (mlir::Value operand : s.op->getOperands()) use(operand, false);
    } else if (s.kind == Kind::Publish) {
      use(s.value, false);
    }
  }
}

/// A value that appears once, in the loop that makes it, and has no name of the user's, is written where it is used.
bool StatementPrinter::inlined(mlir::Value value, Map map) const {
  Key key = key_of(value, map);
  auto at = [](const std::map<Key, int>& counts, Key k) {
    auto it = counts.find(k);
    return it == counts.end() ? 0 : it->second;
  };
  if (kept_.count(key) || !group_of_.count(key)) return false;
  bool once = at(uses_, key) == 1 && at(group_uses_, key) == 1;
  return once && !user_name(value);
}

Expression StatementPrinter::element(mlir::Value value, Map map) {
  mlir::Operation* op = value.getDefiningOp();
  if (auto constant = mlir::dyn_cast<ConstantOp>(op)) {
    Scalar scalar = Scalar::of(constant);
    if (fixed_type(value)) return {fixed_constant(value, scalar.value())};
    if (!scalar.is_number()) return {names_.constant(scalar)};
    std::string literal = float_literal(scalar.coefficient);
    return {literal, literal[0] == '-' ? Expression::Unary : Expression::Primary};
  }
  if (auto index = mlir::dyn_cast<IndexOp>(op)) {
    bool rows = has_role(value, AxisRole::Rows);
    if (rows) return {fmt::format("static_cast<float>({})", row_expression(map))};
    if (map == Map::Column) return {"static_cast<float>(column)"};
    helpers_.insert("column_of");
    return {"static_cast<float>(column_of(lane, i))"};
  }
  if (inlined(value, map)) return element_of(op, map);
  bool subscript = array(value, map) && !loop_locals_.count(key_of(value, map));
  return {name(value, map) + (subscript ? "[i]" : "")};
}

std::string StatementPrinter::row_expression(Map map) const {
  if (place_ == Place::Owners) return "own_row";
  return map == Map::Row ? "row" : "(first_row + i)";
}

std::string StatementPrinter::row_present(Map map) const {
  return map == Map::Column ? "i < rows_here" : row_expression(map) + " < tile.rows";
}

Expression StatementPrinter::element_of(mlir::Operation* op, Map map) {
  ElementContext context;
  context.operand = [this, map](mlir::Value operand) { return element(operand, map); };
  context.row = row_expression(map);
  context.column = map == Map::Row ? "column_of(lane, i)" : "column";
  context.rows = "tile.rows";
  return expression(op, context);
}

void StatementPrinter::print(const std::vector<Statement>& statements) {
  count_uses(statements);
  for (size_t i = 0; i < statements.size();) {
    size_t end = i + 1;
    while (end < statements.size() && groups_with(statements[end - 1], statements[end])) ++end;
    if (statements[i].kind == Kind::Pointwise)
      print_group(statements, {i, end});
    else
      print_one(statements[i]);
    i = end;
  }
}

void StatementPrinter::print_group(const std::vector<Statement>& statements, Group group) {
  const Statement& first = statements[group.begin];
  bool loop = array(first.value, first.map);
  std::vector<const Statement*> lines;
  std::set<Key> local;
  auto count = [](const std::map<Key, int>& counts, Key k) {
    auto it = counts.find(k);
    return it == counts.end() ? 0 : it->second;
  };
  for (size_t i = group.begin; i < group.end; ++i) {
    const Statement& s = statements[i];
    Key key = key_of(s.value, s.map);
    if (inlined(s.value, s.map)) continue;
    lines.push_back(&s);
    if (!kept_.count(key) && count(uses_, key) == count(group_uses_, key)) local.insert(key);
  }
  if (lines.empty()) return;
  auto type = [](mlir::Value value) { return type_of(value).getElement().isInteger(1) ? "bool" : value_type(value); };
  if (loop) {
    for (const Statement* s : lines)
      if (!local.count(key_of(s->value, s->map)))
        out_.line(fmt::format("{} {}[8];", type(s->value), name(s->value, s->map)));
    out_.line("#pragma unroll");
    out_.open("for (int i = 0; i < 8; ++i)");
  }
  for (const Statement* s : lines) {
    bool is_local = !loop || local.count(key_of(s->value, s->map));
    std::string text = element_of(s->op, s->map).text, variable = name(s->value, s->map);
    if (is_local)
      out_.line(fmt::format("const {} {} = {};", type(s->value), variable, text), tag(s->op));
    else
      out_.line(fmt::format("{}[i] = {};", variable, text), tag(s->op));
    if (is_local && loop) loop_locals_.insert(key_of(s->value, s->map));
  }
  if (loop) out_.close();
  loop_locals_.clear();
}

void StatementPrinter::print_one(const Statement& s) {
  switch (s.kind) {
    case Kind::Load:
      return print_load(s);
    case Kind::Store:
      return print_store(s);
    case Kind::Publish:
      return print_publish(s);
    case Kind::Fetch:
      return print_fetch(s);
    case Kind::RowReduce:
      return print_row_reduce(s);
    case Kind::ScanBlocks:
      return print_scan_blocks(s);
    case Kind::ScanCarry:
      return print_scan_carry(s);
    case Kind::BlockTotals:
      return print_block_totals(s);
    case Kind::Total:
      return print_total(s);
    case Kind::RowScan:
    case Kind::RowTotal:
      return print_row_scan(s);
    case Kind::PublishLast:
    case Kind::FetchShifted:
      return print_last_and_shift(s);
    case Kind::FetchBoundary:
      return print_boundary(s);
    case Kind::Accumulate:
      if (place_ == Place::Owners) return print_tile_total(s);
      for (const ParameterSum& sum : program_.parameter_sums)
        if (sum.op == s.op) {
          std::string x = name(s.value, s.map);
          out_.line(fmt::format("{} += {};", sum.name, x), tag(s.op));
        }
      return;
    case Kind::Barrier:
      return print_barrier(s);
    case Kind::LoadAhead:
      return print_load_ahead(s);
    case Kind::Restage:
      return restage_(out_, s.region);
    case Kind::Pointwise:
      break;
  }
  throw KdagenBug("emit: a statement without text");
}

}  // namespace kdagen::emit
