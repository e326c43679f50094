// SPDX-License-Identifier: Apache-2.0
// Values at the boundaries of sub-chunks, and tensors with a row of each.
#include <fmt/format.h>

#include "codegen/emit/statements.h"
#include "codegen/schedule/homes.h"
#include "kdagen/error.h"

using namespace kdagen::kda;
using namespace kdagen::schedule;

namespace kdagen::emit {

int subchunks(const Tiling& tiling, OutputOp output) {
  const int every = int(output.getEvery());
  return (tiling.chunk + every - 1) / every;
}

void StatementPrinter::print_boundary(const Statement& s) {
  auto boundary = mlir::cast<BoundaryOp>(s.op);
  const std::string shared = names_.buffer(s.buffer), variable = name(s.value, s.map), type = value_type(s.value);
  const int every = int(boundary.getEvery()), width = program_.tiling.width;
  const std::string row = s.map == Map::Row ? "row" : "(first_row + i)", present = fmt::format("{} >= {}", row, every);
  const std::string from = fmt::format("{} / {} * {} - 1", row, every, every);
  out_.line(fmt::format("// {} in the last row before each {} rows, 0 for the first of them",
                        names_.base(boundary.getX()), every),
            tag(s.op));
  if (shape_of(s.value) == Shape::Rows && s.map == Map::Row)
    return out_.line(
        fmt::format("const {} {} = {} ? {}[{}] : {};", type, variable, present, shared, from, zero_of(s.value)));
  if (s.map == Map::Row) {
    out_.line(fmt::format("{} {}[8] = {{}};", type, variable));
    out_.open(fmt::format("if ({})", present));
    out_.line(fmt::format("load4<true>(&{}[({}) * {} + 4 * lane], &{}[0]);", shared, from, width, variable));
    out_.line(
        fmt::format("load4<true>(&{}[({}) * {} + {} + 4 * lane], &{}[4]);", shared, from, width, width / 2, variable));
    return out_.close();
  }
  const std::string place = shape_of(s.value) == Shape::Rows ? from : fmt::format("({}) * {} + column", from, width);
  out_.line(fmt::format("{} {}[8];", type, variable));
  out_.line("#pragma unroll");
  out_.line(fmt::format("for (int i = 0; i < 8; ++i) {}[i] = {} ? {}[{}] : {};", variable, present, shared, place,
                        zero_of(s.value)));
}

std::string StatementPrinter::subchunk_address(OutputOp output, const std::string& part) const {
  const std::string tensor = names_.tensor(output.getTensor().str()), member = "arguments." + tensor;
  if (program_.tiling.stages > 0 && place_ == Place::Tile)
    return fmt::format("row_of<aligned>(here.{}, {}.row, {})", tensor, member, part);
  return fmt::format("{}.at(head, number, {})", member, part);
}

/// By the thread that has the sub-chunk's first row; 0 where the tile has none.
void StatementPrinter::print_subchunks(const Statement& s) {
  auto output = mlir::cast<OutputOp>(s.op);
  const Tiling& tiling = program_.tiling;
  const int every = int(output.getEvery()), rows = subchunks(tiling, output) * every;
  if (every % 8 != 0 || place_ != Place::Tile)
    throw KdagenBug("emit: a sub-chunk is no whole number of scan blocks, or is written apart from the tiles");
  const bool tile = shape_of(s.value) == Shape::Tile;
  const std::string row = s.map == Map::Row ? "row" : "first_row", storage = storage_type(output.getStorage());
  std::string guard = fmt::format("{} % {} == 0", row, every);
  if (tiling.total_rows() > rows) guard += fmt::format(" && {} < {}", row, rows);
  if (!tile && s.map == Map::Row) guard += " && lane == 0";
  if (tile && s.map == Map::Column && !column_present().empty()) guard += " && " + column_present();
  const std::string to = subchunk_address(output, fmt::format("{} / {}", row, every)), value = name(s.value, s.map);
  auto present = [&](const std::string& x) { return fmt::format("{} < tile.rows ? {} : 0.0f", row, x); };
  out_.open(fmt::format("if ({})", guard));
  if (s.map == Map::Row && tile) {
    helpers_.insert("store_row");
    out_.line("float part[8];");
    out_.line("#pragma unroll");
    out_.line(fmt::format("for (int i = 0; i < 8; ++i) part[i] = {};", present(value + "[i]")));
    out_.line(fmt::format("store_row<aligned>({}, lane, part);", to), tag(s.op));
  } else {
    const std::string place = tile ? fmt::format("({})[column]", to) : fmt::format("*({})", to);
    out_.line(fmt::format("{} = to<{}>({});", place, storage, present(value + (array(s.value, s.map) ? "[0]" : ""))),
              tag(s.op));
  }
  out_.close();
}

}  // namespace kdagen::emit
