// SPDX-License-Identifier: Apache-2.0
// Sums and scans in the orders that belong to the program.
#include <limits>

#include <fmt/format.h>

#include "codegen/emit/statements.h"
#include "codegen/schedule/homes.h"

using namespace kdagen::kda;
using namespace kdagen::schedule;

namespace kdagen::emit {

/// A lane's eight columns of a value, as a helper takes them. Column numbers stand in no variable.
std::string StatementPrinter::row_array(mlir::Value value, Map map) {
  if (!value.getDefiningOp<IndexOp>()) return name(value, map);
  helpers_.insert({"column_of", "column_numbers"});
  return "column_numbers(lane).values";
}

void StatementPrinter::print_row_reduce(const Statement& s) {
  std::string variable = name(s.value, s.map);
  if (auto norm = mlir::dyn_cast<InverseNormOp>(s.op)) {
    bool normal = constant_scalar(norm.getEps())->value() >= 0x1p-125;  // the rsqrt's argument, whatever the row
    helpers_.insert({"row_dot", normal ? "row_inverse_norm" : "row_inverse_norm_to_zero"});
    out_.line(fmt::format("const float {} = row_inverse_norm{}({}, {}, {}, lane);", variable, normal ? "" : "_to_zero",
                          row_array(norm.getX(), s.map), element(norm.getFactor(), s.map).text,
                          element(norm.getEps(), s.map).text),
              tag(s.op));
    return;
  }
  if (sums_products(s)) {
    helpers_.insert("row_dot");
    mlir::Value a = register_operands(s.op)[0], b = register_operands(s.op)[1];
    if (!array(a, s.map)) std::swap(a, b);
    if (!array(b, s.map)) helpers_.insert("row_dot_one");
    std::string second = array(b, s.map) ? row_array(b, s.map) : element(b, s.map).text;
    out_.line(fmt::format("const float {} = row_dot({}, {}, lane);", variable, row_array(a, s.map), second), tag(s.op));
    return;
  }
  bool sum = mlir::isa<SumOp>(s.op);
  helpers_.insert(sum ? "row_sum" : "row_max");
  out_.line(fmt::format("const float {} = {}({}, lane);", variable, sum ? "row_sum" : "row_max",
                        row_array(s.op->getOperand(0), s.map)),
            tag(s.op));
}

namespace {
std::string block_number(const Tiling& tiling, const std::string& block) {
  return tiling.steps > 1 ? fmt::format("(step * {} + {})", tiling.blocks_per_step(), block) : block;
}
}  // namespace

void StatementPrinter::print_scan_blocks(const Statement& s) {
  auto scan = mlir::cast<ScanOp>(s.op);
  std::string result = name(scan.getResult(), s.map);
  const Tiling& tiling = program_.tiling;
  bool reverse = scan.getReverse();
  out_.line(fmt::format("// {} of {}: inside blocks of 8 rows, absent rows skipped",
                        reverse ? "suffix sum" : "cumulative sum", names_.base(s.value)),
            tag(s.op));
  out_.line(fmt::format("{} {}[8];", value_type(s.value), result));
  out_.line("#pragma unroll");
  out_.open(reverse ? "for (int i = 7; i >= 0; --i)" : "for (int i = 0; i < 8; ++i)");
  out_.line(fmt::format("const {} term = i < rows_here ? {} : {};", value_type(s.value), element(s.value, s.map).text,
                        zero_of(s.value)));
  out_.line(
      fmt::format("{0}[i] = i == {1} ? term : {0}[i {2} 1] + term;", result, reverse ? 7 : 0, reverse ? "+" : "-"));
  out_.close();
  out_.line(fmt::format("{}[{} * {} + column] = {}[{}];", names_.buffer(s.buffer), block_number(tiling, "block"),
                        tiling.width, result, reverse ? 0 : 7));
}

void StatementPrinter::print_scan_carry(const Statement& s) {
  auto scan = mlir::cast<ScanOp>(s.op);
  std::string result = name(s.value, s.map), buffer = names_.buffer(s.buffer);
  const Tiling& tiling = program_.tiling;
  int blocks = tiling.blocks_per_step();
  bool reverse = scan.getReverse(), steps = tiling.steps > 1;
  std::string carry = result + "_carry", before = result + "_before";
  out_.line(fmt::format("// and the blocks {}", reverse ? "after" : "before"));
  for (const std::string& variable : steps ? std::vector{before} : std::vector{before, carry})
    out_.line(fmt::format("{} {} = {};", value_type(s.value), variable, zero_of(s.value)));
  out_.line("#pragma unroll");
  out_.open(reverse ? fmt::format("for (int b = {}; b >= 0; --b)", blocks - 1)
                    : fmt::format("for (int b = 0; b < {}; ++b)", blocks));
  out_.line(fmt::format("if (b == block) {} = {};", before, carry));
  out_.line(fmt::format("{} += {}[{} * {} + column];", carry, buffer, block_number(tiling, "b"), tiling.width));
  out_.close();
  out_.line("#pragma unroll");
  if (!scan.getExclusive()) {
    out_.line(fmt::format("for (int i = 0; i < 8; ++i) {}[i] = {} + {}[i];", result, before, result));
  } else if (reverse) {
    out_.line(fmt::format("for (int i = 0; i < 8; ++i) {0}[i] = i == 7 ? {1} : {1} + {0}[i + 1];", result, before));
  } else {
    out_.line(fmt::format("for (int i = 7; i >= 0; --i) {0}[i] = i == 0 ? {1} : {1} + {0}[i - 1];", result, before));
  }
}

void StatementPrinter::print_block_totals(const Statement& s) {
  const Tiling& tiling = program_.tiling;
  bool sum = mlir::isa<SumOp>(s.op);
  std::string result = name(s.op->getResult(0), s.map) + "_block";
  out_.line(
      fmt::format("// {} over the rows of {}: blocks of 8 rows first", sum ? "sum" : "maximum", names_.base(s.value)),
      tag(s.op));
  out_.line(fmt::format("{} {} = {};", value_type(s.value), result,
                        sum ? zero_of(s.value) : float_literal(-std::numeric_limits<double>::infinity())));
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < 8; ++i)");
  std::string x = element(s.value, s.map).text;
  if (sum)
    out_.line(fmt::format("if (i < rows_here) {0} = i == 0 ? {1} : {0} + {1};", result, x));
  else
    out_.line(fmt::format("if (i < rows_here && !({1} <= {0}) && {0} == {0}) {0} = {1};", result, x));
  out_.close();
  out_.line(fmt::format("{}[{} * {} + column] = {};", names_.buffer(s.buffer), block_number(tiling, "block"),
                        tiling.width, result));
}

void StatementPrinter::print_total(const Statement& s) {
  const Tiling& tiling = program_.tiling;
  std::string result = name(s.value, s.map), buffer = names_.buffer(s.buffer);
  out_.line(fmt::format("{} {} = {}[column];", value_type(s.value), result, buffer), tag(s.op));
  if (tiling.total_blocks() == 1) return;
  out_.line("#pragma unroll");
  std::string term = fmt::format("{}[b * {} + column]", buffer, tiling.width);
  std::string loop = fmt::format("for (int b = 1; b < {}; ++b) ", tiling.total_blocks());
  if (mlir::isa<SumOp>(s.op))
    out_.line(loop + fmt::format("{} += {};", result, term));
  else
    out_.line(loop + fmt::format("if (!({1} <= {0}) && {0} == {0}) {0} = {1};", result, term));
}

void StatementPrinter::print_row_scan(const Statement& s) {
  std::string result = name(s.value, s.map), buffer = names_.buffer(s.buffer);
  if (place_ == Place::Owners) buffer += fmt::format(" + {} * own_tile", program_.tiling.chunk);
  if (auto scan = mlir::dyn_cast<ScanOp>(s.op)) {
    out_.line(fmt::format("const {} {} = row_scan<{}, {}, {}, {}>({}, {}, tile.rows);", value_type(s.value), result,
                          program_.tiling.chunk, scan.getExclusive(), scan.getReverse(),
                          program_.tiling.steps == 1 || place_ == Place::Owners, buffer, row_expression(s.map)),
              tag(s.op));
  } else if (mlir::isa<SumOp>(s.op)) {
    out_.line(fmt::format("const {} {} = row_total<{}>({}, tile.rows);", value_type(s.value), result,
                          program_.tiling.chunk, buffer),
              tag(s.op));
  } else {
    out_.line(fmt::format("float {} = {}[0];", result, buffer), tag(s.op));
    out_.line(fmt::format("for (int r = 1; r < tile.rows; ++r) if (!({1}[r] <= {0}) && {0} == {0}) {0} = {1}[r];",
                          result, buffer));
  }
}

/// A row owner's part of a sum over tiles: for the segment's sum, or, where a block has fewer tiles, for the next
/// kernel.
void StatementPrinter::print_tile_total(const Statement& s) {
  std::string total = fmt::format("tile.rows > 0 ? {} : 0.0f", name(s.value, s.map));
  if (program_.tiling.tiles_per_block >= kTilesPerSegment)
    return out_.line(fmt::format("if (own_row == 0) {}[own_tile] = {};", names_.buffer(s.buffer), total), tag(s.op));
  for (const ParameterSum& sum : program_.parameter_sums)
    if (sum.op == s.op)
      out_.line(
          fmt::format("if (own_row == 0 && number < end) arguments.{}_partial[head * arguments.tiles + number] = {};",
                      sum.name, total),
          tag(s.op));
}

}  // namespace kdagen::emit
