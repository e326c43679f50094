// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/staging.h"

#include <fmt/format.h>

#include "codegen/emit/statements.h"
#include "codegen/schedule/homes.h"

using namespace kdagen::kda;
using namespace kdagen::schedule;

namespace kdagen::emit {
namespace {

/// Where a staged tensor's box of the tile starts.
struct Corner {
  std::string first, second, third;  // coordinates of its map after the features
  std::string pointer, stride, rows; // for copies by the threads
};

Corner corner_of(const Program& program, const Names& names, InputOp input) {
  mlir::Value value = input.getResult();
  std::string tensor = input.getTensor().str(), member = "arguments." + names.tensor(tensor);
  bool rows = has_role(value, AxisRole::Rows), heads = has_role(value, AxisRole::Head);
  std::string head = heads ? "head" : "0";
  if (rows && !program.tile_major.count(tensor))
    return {"tile.token", head, "tile.batch", fmt::format("{}.at(tile.batch, tile.token, {})", member, head), member + ".token", "tile.rows"};
  return {"0", "number", head, fmt::format("{}.at({}, number, 0)", member, head), rows ? member + ".row" : "0", rows ? "tile.rows" : "1"};
}
}  // namespace

std::string StagingPrinter::arrivals() const {
  return fmt::format("reinterpret_cast<Arrival*>(shared + {})", program_.staging.control_offset / 4);
}
std::string StagingPrinter::tiles() const {
  return fmt::format("reinterpret_cast<StagedTile*>(shared + {})", program_.staging.control_offset / 4 + 2 * program_.tiling.stages);
}
std::string StagingPrinter::slot_address(const std::string& slot) const {
  return fmt::format("shared + {} + {} * {}", program_.staging.slots_offset / 4, slot, program_.staging.slot_bytes / 4);
}
std::string StagingPrinter::call(const std::string& number, const std::string& slot) const {
  return fmt::format("{}_stage<aligned>(arguments, shared, head, {}, begin, end, {});", kernel_, number, slot);
}

void StagingPrinter::print_function(Writer& out) const {
  if (!any()) return;
  const Tiling& tiling = program_.tiling;
  const Staging& staging = program_.staging;
  out.line("/// Asks for the operands of tile `number`, one of the block's tiles begin..end-1. aligned: thread 0 asks the copy engine,");
  out.line("/// and whoever waits for the slot's counter sees them. Else all threads copy; seen after a barrier.");
  out.line("template <bool aligned>");
  out.open(fmt::format("KD_FUNCTION void {}_stage(const Arguments& arguments, float* shared, long long head, long long number, long long begin, long long end, int slot)", kernel_));
  out.line("if (number >= end || (aligned && threadIdx.x != 0)) return;");
  out.line(fmt::format("Arrival* const arrivals = {};", arrivals()));
  out.line(fmt::format("StagedTile* const staged_tiles = {};", tiles()));
  out.line("(void)arrivals, (void)head;");
  out.open("if (threadIdx.x == 0)");
  out.line("const long long* const first_tile = arguments.cu_seqlens != nullptr ? arguments.first_tile : nullptr;");
  out.line(fmt::format("const StagedTile& before = staged_tiles[slot == 0 ? {} : slot - 1];", tiling.stages - 1));
  out.line("staged_tiles[slot] = number == begin");
  out.line(fmt::format("    ? find_staged_tile(number, {}, arguments.tokens, arguments.sequences, first_tile, arguments.sequence_start)", tiling.chunk));
  out.line(fmt::format("    : next_staged_tile(before, {}, arguments.tokens, arguments.sequences, first_tile, arguments.sequence_start);", tiling.chunk));
  out.close();
  out.line("if constexpr (!aligned) block_barrier();  // staged_tiles[slot] is complete");
  out.line("const Tile tile = tile_of(staged_tiles[slot]);");
  out.line(fmt::format("float* const operands = {};", slot_address("slot")));
  out.open("if constexpr (aligned)");
  out.line(fmt::format("expect_bytes(&arrivals[slot], tile.rows > 0 ? {} : 0, &staged_tiles[slot]);", staging.arriving_bytes()));
  out.line("if (tile.rows == 0) return;");
  for (const StagedTensor& staged : staging.tensors) {
    InputOp input = staged.input;
    Corner corner = corner_of(program_, names_, input);
    out.line(fmt::format("fetch_box(operands + {}, arguments.{}, {}, {}, {}, &arrivals[slot]);", staged.offset / 4, names_.map(input.getTensor().str()),
                         corner.first, corner.second, corner.third));
  }
  out.close();
  out.open("else");
  for (const StagedTensor& staged : staging.tensors) {
    InputOp input = staged.input;
    Corner corner = corner_of(program_, names_, input);
    out.line(fmt::format("copy_box(reinterpret_cast<{}*>(operands + {}), {}, {}, tile.rows > 0 ? {} : 0, {}, {});", storage_type(input.getStorage()),
                         staged.offset / 4, corner.pointer, corner.stride, corner.rows, tiling.dim, tiling.threads));
  }
  out.close();
  out.close();
  out.line();
}

void StagingPrinter::print_start(Writer& out) const {
  const Tiling& tiling = program_.tiling;
  out.line(fmt::format("// Operands travel {} tile{} ahead.", tiling.stages, tiling.stages == 1 ? "" : "s"));
  out.line(fmt::format("Arrival* const arrivals = {};", arrivals()));
  out.line(fmt::format("const StagedTile* const staged_tiles = {};", tiles()));
  out.open("if (aligned && threadIdx.x == 0)");
  out.line(fmt::format("for (int slot = 0; slot < {}; ++slot) initialise_arrival(&arrivals[slot]);", tiling.stages));
  out.line("publish_arrivals();");
  out.close();
  out.line("block_barrier();  // arrivals is complete");
  out.line(fmt::format("for (int ahead = 0; ahead < {}; ++ahead) {}", tiling.stages, call("begin + ahead", "ahead")));
  out.line("int slot = 0;");
  out.line("unsigned phase = 0;");
}

void StagingPrinter::print_arrival(Writer& out) const {
  out.line("if constexpr (aligned) wait_for(&arrivals[slot], phase);");
  out.line("else block_barrier();  // the slot is complete");
  out.line("const Tile tile = tile_of(staged_tiles[slot]);");
}

void StagingPrinter::print_operands(Writer& out) const {
  out.line(fmt::format("const float* const operands = {};", slot_address("slot")));
  for (const StagedTensor& staged : program_.staging.tensors) {
    InputOp input = staged.input;
    std::string type = storage_type(input.getStorage()), name = names_.staged(input.getTensor().str());
    std::string address = staged.offset == 0 ? "operands" : fmt::format("operands + {}", staged.offset / 4);
    if (type == "float") out.line(fmt::format("const float* const {} = {};", name, address));
    else out.line(fmt::format("const {0}* const {1} = reinterpret_cast<const {0}*>({2});", type, name, address));
  }
}

void StagingPrinter::print_restage(Writer& out) const {
  out.line(call(fmt::format("number + {}", program_.tiling.stages), "slot"));
}

std::string StagingPrinter::advance() const { return any() ? fmt::format(", next_slot(slot, phase, {})", program_.tiling.stages) : ""; }

}  // namespace kdagen::emit
