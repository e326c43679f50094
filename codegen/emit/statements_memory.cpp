// SPDX-License-Identifier: Apache-2.0
// Loads, stores, and moves through shared memory.
#include <fmt/format.h>

#include "codegen/emit/aliases.h"
#include "codegen/emit/statements.h"
#include "codegen/schedule/homes.h"
#include "kdagen/error.h"

using namespace kdagen::kda;
using namespace kdagen::schedule;

namespace kdagen::emit {
namespace {
mlir::ArrayAttr axes_of(mlir::Value value) {
  llvm::SmallVector<mlir::Attribute> names;
  for (mlir::StringAttr axis : type_of(value).getAxes()) names.push_back(axis);
  return mlir::ArrayAttr::get(value.getContext(), names);
}
}  // namespace

std::string StatementPrinter::column_present() const {
  return program_.tiling.dim == program_.tiling.width ? "" : fmt::format("column < {}", program_.tiling.dim);
}

std::string StatementPrinter::address(const std::string& tensor, mlir::ArrayAttr axes, mlir::Value value,
                                      Map map) const {
  KernelOp kernel = program_.kernel;
  bool heads = lists(axes, kernel.axis(AxisRole::Head)), rows = lists(axes, kernel.axis(AxisRole::Rows));
  bool per_tile = lists(axes, kernel.axis(AxisRole::Chunk)) || section_of(value) == Section::Tile;
  if (std::string staged = names_.staged(tensor); !staged.empty())
    return rows ? fmt::format("({} + {} * {})", staged, step_row(map), program_.tiling.dim) : staged;
  std::string member = "arguments." + names_.tensor(tensor), head = heads ? "head" : "0";
  if (program_.tiling.stages > 0 && place_ == Place::Tile && per_tile | rows) {
    std::string first = "here." + names_.tensor(tensor), stride = program_.tile_major.count(tensor) ? "row" : "token";
    return rows ? fmt::format("row_of<aligned>({}, {}.{}, {})", first, member, stride, row_expression(map)) : first;
  }
  if (rows && program_.tile_major.count(tensor))
    return fmt::format("{}.at({}, number, {})", member, head, row_expression(map));
  if (rows) return fmt::format("{}.at(tile.batch, tile.token + {}, {})", member, row_expression(map), head);
  if (per_tile) return fmt::format("{}.at({}, number, 0)", member, head);
  bool columns = lists(axes, kernel.axis(AxisRole::Feature));
  if (!heads) return member;
  return columns ? fmt::format("{} + head * {}", member, program_.tiling.dim) : member + " + head";
}

/// The rows of a column, one address apart from the next: the first's as `place`, and the i-th. Empty where a row is
/// found otherwise.
std::string StatementPrinter::open_column(const std::string& tensor, mlir::ArrayAttr axes, const std::string& type) {
  KernelOp kernel = program_.kernel;
  bool rows = lists(axes, kernel.axis(AxisRole::Rows)), columns = lists(axes, kernel.axis(AxisRole::Feature));
  if (program_.tiling.stages == 0 || place_ != Place::Tile || !rows || !columns || !names_.staged(tensor).empty())
    return {};
  std::string name = names_.tensor(tensor),
              stride = fmt::format("arguments.{}.{}", name, program_.tile_major.count(tensor) ? "row" : "token");
  out_.open();
  out_.line(fmt::format("{}* const place = row_of<aligned>(here.{}, {}, first_row) + column;", type, name, stride));
  return fmt::format("*row_of<aligned>(place, {}, i)", stride);
}

void StatementPrinter::print_load(const Statement& s) {
  auto input = mlir::cast<InputOp>(s.op);
  std::string variable = name(s.value, s.map), tensor = input.getTensor().str();
  std::string from = address(tensor, axes_of(s.value), s.value, s.map), where = tag(s.op);
  Shape shape = shape_of(s.value);
  bool rows = shape == Shape::Tile || shape == Shape::Rows, columns = shape == Shape::Tile || shape == Shape::Columns;
  std::vector<std::string> conditions;
  // Absent rows of a staged tensor hold something; no statement lets an absent row act on another.
  if (rows && (names_.staged(tensor).empty() || program_.tiling.rows_per_step > program_.tiling.chunk))
    conditions.push_back(row_present(s.map));
  if (place_ == Place::Owners && !rows) conditions.push_back("tile.rows > 0");
  if (columns && s.map == Map::Column && !column_present().empty()) conditions.push_back(column_present());
  if (std::string apart = unless_aliased(program_, names_, s.op); !apart.empty()) conditions.push_back(apart);
  bool parameter = section_of(s.value) != Section::Tile;
  std::string absent = "0.0f";
  if (input.getOptional()) {
    conditions.push_back(fmt::format("arguments.{}{} != nullptr", names_.tensor(tensor), parameter ? "" : ".data"));
    if (auto given = input.getAbsent()) absent = float_literal(given->convertToDouble());
  }
  std::string present;
  for (const std::string& condition : conditions) present += (present.empty() ? "" : " && ") + condition;
  auto guarded = [&](const std::string& load) {
    return present.empty() ? load : fmt::format("{} ? {} : {}", present, load, absent);
  };
  if (s.map == Map::Row && columns) {
    helpers_.insert("load_row");
    out_.line(fmt::format("float {}[8];", variable), where);
    bool staged = !names_.staged(tensor).empty();  // shared memory is aligned whatever the tensor is
    out_.line(fmt::format("load_row<{}>({}, lane, {}, {});", staged ? "true" : "aligned", from,
                          present.empty() ? "true" : present, variable));
    if (absent != "0.0f")
      out_.line(fmt::format("if (arguments.{}{} == nullptr) for (float& element : {}) element = {};",
                            names_.tensor(tensor), parameter ? "" : ".data", variable, absent));
  } else if (array(s.value, s.map)) {
    out_.line(fmt::format("float {}[8];", variable), where);
    std::string row = open_column(tensor, axes_of(s.value), "const " + storage_type(input.getStorage()));
    std::string load = !row.empty() ? fmt::format("to_float({})", row)
                       : columns    ? fmt::format("to_float({}[column])", from)
                                    : fmt::format("to_float(*{})", from);
    out_.line("#pragma unroll");
    out_.line(fmt::format("for (int i = 0; i < 8; ++i) {}[i] = {};", variable, guarded(load)));
    if (!row.empty()) out_.close();
  } else {
    std::string load = columns ? fmt::format("to_float(({})[column])", from) : fmt::format("to_float(*({}))", from);
    std::string ahead = names_.ahead(tensor);
    if (ahead.empty())
      out_.line(fmt::format("const float {} = {};", variable, guarded(load)), where);
    else
      out_.line(fmt::format("const float {} = number > begin ? {} : {};", variable, ahead, guarded(load)), where);
  }
}

void StatementPrinter::print_load_ahead(const Statement& s) {
  auto input = mlir::cast<InputOp>(s.op);
  std::string tensor = input.getTensor().str(), stride = program_.tile_major.count(tensor) ? "row" : "token";
  std::string record = fmt::format("slots[record == {} ? 0 : record + 1]", program_.tiling.stages);
  out_.open("if (number + 1 < used_end)");
  out_.line(fmt::format("const Slot& after = {};  // the next tile", record));
  out_.line(
      fmt::format("{} = row < after.tile.rows ? to_float(*row_of<aligned>(after.{}, arguments.{}.{}, row)) : 0.0f;",
                  names_.ahead(tensor), names_.tensor(tensor), names_.tensor(tensor), stride),
      tag(s.op));
  out_.close();
}

void StatementPrinter::print_store(const Statement& s) {
  auto output = mlir::cast<OutputOp>(s.op);
  if (output.getEvery() > 0) return print_subchunks(s);
  std::string tensor = output.getTensor().str(), to = address(tensor, output.getAxes(), s.value, s.map),
              where = tag(s.op);
  Shape shape = shape_of(s.value);
  std::string storage = storage_type(output.getStorage());
  bool heads = lists(output.getAxes(), KernelOp(program_.kernel).axis(AxisRole::Head));
  std::vector<std::string> conditions;
  if (std::string apart = unless_aliased(program_, names_, s.op); !apart.empty()) conditions.push_back(apart);
  if (KernelOp(program_.kernel).axis(AxisRole::Head) && !heads) conditions.push_back("head == 0");
  if (shape == Shape::Tile || shape == Shape::Rows) conditions.push_back(row_present(s.map));
  if (shape == Shape::Rows && s.map == Map::Row && place_ != Place::Owners) conditions.push_back("lane == 0");
  if (shape == Shape::Columns && place_ != Place::Finish)
    conditions.push_back(s.map == Map::Row ? "step_row == 0" : "block == 0");
  if (shape == Shape::Single)
    conditions.push_back(place_ == Place::Owners ? "own_row == 0 && tile.rows > 0" : "threadIdx.x == 0");
  bool columns = shape == Shape::Tile || shape == Shape::Columns;
  if (columns && s.map == Map::Column && !column_present().empty()) conditions.push_back(column_present());
  if (place_ == Place::Finish && shape == Shape::Columns)
    conditions.push_back(fmt::format("threadIdx.x < {}", program_.tiling.lanes));
  std::string present;
  for (const std::string& condition : conditions) present += (present.empty() ? "" : " && ") + condition;
  std::string guard = present.empty() ? "" : "if (" + present + ") ";
  if (s.map == Map::Row && columns) {
    helpers_.insert("store_row");
    std::string value = name(s.value, s.map);
    if (mlir::isa<ConstantOp>(s.value.getDefiningOp()))
      throw KdagenBug("emit: a constant is stored without a broadcast");
    out_.line(fmt::format("{}store_row<aligned>({}, lane, {});", guard, to, value), where);
  } else if (array(s.value, s.map)) {
    std::string row = open_column(tensor, output.getAxes(), storage);
    std::string place = !row.empty() ? row : columns ? fmt::format("{}[column]", to) : "*" + to;
    out_.line("#pragma unroll");
    out_.line(fmt::format("for (int i = 0; i < 8; ++i) {}{} = to<{}>({});", guard, place, storage,
                          element(s.value, s.map).text),
              where);
    if (!row.empty()) out_.close();
  } else {
    std::string place = columns ? fmt::format("({})[column]", to) : fmt::format("*({})", to);
    out_.line(fmt::format("{}{} = to<{}>({});", guard, place, storage, element(s.value, s.map).text), where);
  }
}

/// The row in its step.
std::string StatementPrinter::step_row(Map map) const {
  if (program_.tiling.steps == 1 || whole_) return row_expression(map);
  return map == Map::Row ? "step_row" : "(8 * block + i)";
}

std::string StatementPrinter::local_row(const Buffer& buffer, Map map) const {
  bool step = buffer.layout == Layout::StepTile && program_.tiling.steps > 1;
  if (map == Map::Row) return step ? "step_row" : "row";
  return step ? "(8 * block + i)" : "(first_row + i)";
}

std::string StatementPrinter::buffer_index(const Buffer& buffer, const std::string& row,
                                           const std::string& column) const {
  return fmt::format("{}[{} * {} + {}]", names_.buffer(int(&buffer - program_.buffers.data())), row,
                     program_.tiling.width, column);
}

void StatementPrinter::print_publish(const Statement& s) {
  const Buffer& buffer = program_.buffers[s.buffer];
  std::string shared = names_.buffer(s.buffer), variable = name(s.value, s.map);
  Shape shape = shape_of(s.value);
  int width = program_.tiling.width;
  if (place_ == Place::Owners) {
    out_.line(fmt::format("{}[threadIdx.x] = {};", shared, element(s.value, s.map).text));
  } else if (shape == Shape::Rows && s.map == Map::Row) {
    out_.line(fmt::format("if (lane == 0) {}[row] = {};", shared, element(s.value, s.map).text));
  } else if (shape == Shape::Columns && s.map == Map::Column) {
    out_.line(fmt::format("if (block == 0) {}[column] = {};", shared, element(s.value, s.map).text));
  } else if (shape == Shape::Tile && s.map == Map::Row) {
    std::string row = local_row(buffer, s.map);
    out_.line(fmt::format("store4<true>(&{}[{} * {} + 4 * lane], &{}[0]);", shared, row, width, variable));
    out_.line(
        fmt::format("store4<true>(&{}[{} * {} + {} + 4 * lane], &{}[4]);", shared, row, width, width / 2, variable));
  } else if (shape == Shape::Tile) {
    out_.line("#pragma unroll");
    out_.line(fmt::format("for (int i = 0; i < 8; ++i) {} = {}[i];",
                          buffer_index(buffer, local_row(buffer, s.map), "column"), variable));
  } else {
    throw KdagenBug("emit: a value is published from the wrong map");
  }
}

void StatementPrinter::print_fetch(const Statement& s) {
  const Buffer& buffer = program_.buffers[s.buffer];
  std::string shared = names_.buffer(s.buffer), variable = name(s.value, s.map);
  Shape shape = shape_of(s.value);
  int width = program_.tiling.width;
  if (shape == Shape::Single) {
    out_.line(fmt::format("const {} {} = {}[0];", value_type(s.value), variable, shared));
  } else if (shape == Shape::Rows) {
    if (s.map == Map::Row)
      out_.line(fmt::format("const {} {} = {}[row];", value_type(s.value), variable, shared));
    else {
      out_.line(fmt::format("{} {}[8];", value_type(s.value), variable));
      out_.line(fmt::format("for (int i = 0; i < 8; ++i) {}[i] = {}[first_row + i];", variable, shared));
    }
  } else if (s.map == Map::Column) {
    if (shape == Shape::Columns)
      return out_.line(fmt::format("const {} {} = {}[column];", value_type(s.value), variable, shared));
    out_.line(fmt::format("{} {}[8];", value_type(s.value), variable));
    out_.line("#pragma unroll");
    out_.line(fmt::format("for (int i = 0; i < 8; ++i) {}[i] = {};", variable,
                          buffer_index(buffer, local_row(buffer, s.map), "column")));
  } else {
    std::string row = shape == Shape::Tile ? fmt::format("{} * {} + ", local_row(buffer, s.map), width) : "";
    out_.line(fmt::format("{} {}[8];", value_type(s.value), variable));
    out_.line(fmt::format("load4<true>(&{}[{}4 * lane], &{}[0]);", shared, row, variable));
    out_.line(fmt::format("load4<true>(&{}[{}{} + 4 * lane], &{}[4]);", shared, row, width / 2, variable));
  }
}

void StatementPrinter::print_barrier(const Statement& s) {
  if (s.buffer < 0) return out_.line("block_barrier();  // every thread is done with the " + s.note);
  std::string buffer = names_.buffer(s.buffer),
              barrier = place_ == Place::Owners ? "warp_barrier();  // " : "block_barrier();  // ";
  out_.line(barrier + (s.note == "complete" ? buffer + " is complete" : "every thread is done with " + buffer));
}

void StatementPrinter::print_last_and_shift(const Statement& s) {
  std::string shared = names_.buffer(s.buffer);
  if (s.kind == Kind::PublishLast) {
    std::string variable = element(s.value, s.map).text;
    if (s.map == Map::Row)
      return out_.line(fmt::format("if (row == tile.rows - 1 && lane == 0) {}[0] = {};", shared, variable), tag(s.op));
    out_.line("#pragma unroll");
    out_.open("for (int i = 0; i < 8; ++i)");
    out_.line(fmt::format("if (first_row + i == tile.rows - 1) {}[column] = {};", shared, variable), tag(s.op));
    out_.close();
    return;
  }
  auto shift = mlir::cast<ShiftOp>(s.op);
  std::string variable = name(s.value, s.map), fill = float_literal(shift.getFill().convertToDouble());
  int64_t amount = shift.getAmount();
  std::string row = s.map == Map::Row ? "row" : "first_row + i",
              source = amount < 0 ? fmt::format("{} + {}", row, -amount) : fmt::format("{} - {}", row, amount);
  std::string present = amount < 0 ? fmt::format("{} < tile.rows", source) : fmt::format("{} >= 0", source);
  if (s.map == Map::Row) {
    out_.line(fmt::format("const float {} = {} ? {}[{}] : {};", variable, present, shared, source, fill), tag(s.op));
    return;
  }
  out_.line(fmt::format("float {}[8];", variable), tag(s.op));
  out_.line("#pragma unroll");
  out_.line(fmt::format("for (int i = 0; i < 8; ++i) {}[i] = {} ? {}[({}) * {} + column] : {};", variable, present,
                        shared, source, program_.tiling.width, fill));
}

}  // namespace kdagen::emit
