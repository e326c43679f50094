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
  std::string first, second, third;   // coordinates of its map after the features
  std::string pointer, stride, rows;  // for copies by the threads
};

/// Whether a tensor of tiles is read or written through a pointer, one a tile: all but those that the copy engine
/// brings.
bool by_pointer(const Program& program, mlir::Operation* op) {
  if (program.is_owned(op)) return false;
  if (auto output = mlir::dyn_cast<OutputOp>(op)) return section_of(output.getValue()) == Section::Tile;
  auto input = mlir::dyn_cast<InputOp>(op);
  if (!input || section_of(input.getResult()) != Section::Tile) return false;
  return !program.staging.by_engine ||
         llvm::none_of(program.staging.tensors, [&](StagedTensor staged) { return staged.input == input; });
}

/// `first_row`: of the step in its tile, "0" where a tile is one step.
Corner corner_of(const Program& program, const Names& names, InputOp input, const std::string& first_row) {
  mlir::Value value = input.getResult();
  std::string tensor = input.getTensor().str(), member = "arguments." + names.tensor(tensor);
  bool rows = has_role(value, AxisRole::Rows), heads = has_role(value, AxisRole::Head);
  std::string head = heads ? "head" : "0";
  std::string token = first_row == "0" ? "tile.token" : "tile.token + " + first_row;
  std::string left = first_row == "0" ? "tile.rows" : "tile.rows - " + first_row;
  if (!program.staging.by_engine) {
    std::string pointer = "next." + names.tensor(tensor),
                stride = !rows ? "0" : member + (program.tile_major.count(tensor) ? ".row" : ".token");
    if (rows && first_row != "0") pointer += fmt::format(" + {} * {}", first_row, stride);
    return {"", "", "", pointer, stride, rows ? left : "1"};
  }
  if (rows && !program.tile_major.count(tensor))
    return {token, head, "tile.batch", fmt::format("{}.at(tile.batch, {}, {})", member, token, head), member + ".token",
            left};
  std::string row = rows ? first_row : "0";
  return {row,
          "number",
          head,
          fmt::format("{}.at({}, number, {})", member, head, row),
          rows ? member + ".row" : "0",
          rows ? left : "1"};
}
}  // namespace

std::string StagingPrinter::arrivals() const {
  return fmt::format("reinterpret_cast<Arrival*>(shared + {})", program_.staging.control_offset / 4);
}
std::string StagingPrinter::records() const {
  return fmt::format("reinterpret_cast<Slot*>(shared + {})",
                     program_.staging.control_offset / 4 + (by_engine() ? 2 * program_.tiling.stages : 0));
}
std::string StagingPrinter::slot_address(const std::string& slot) const {
  return fmt::format("shared + {} + {} * {}", program_.staging.slots_offset / 4, slot, program_.staging.slot_bytes / 4);
}
std::string StagingPrinter::call(const std::string& number, const std::string& slot, const std::string& record) const {
  return fmt::format("{}_stage<aligned>(arguments, shared, head, {}, begin, used_end, {}, {});", kernel_, number, slot,
                     record);
}

void StagingPrinter::print_record(Writer& out) const {
  if (!any()) return;
  KernelOp kernel = program_.kernel;
  out.line(
      by_engine()
          ? "/// What thread 0 says of the tile in a slot: where it lies, and where its first row is in the tensors that are not staged."
          : "/// What thread 0 says of the tile in a slot: where it lies, and where its first row is in each tensor.");
  out.open("struct Slot");
  out.line("StagedTile tile;");
  for (mlir::Operation& op : kernel.block())
    if (by_pointer(program_, &op)) {
      auto input = mlir::dyn_cast<InputOp>(op);
      auto output = mlir::dyn_cast<OutputOp>(op);
      std::string type = input ? "const " + storage_type(input.getStorage()) : storage_type(output.getStorage());
      out.line(fmt::format("{}* {};", type, names_.tensor(input ? input.getTensor().str() : output.getTensor().str())));
    }
  out.close(";");
  out.line();
}

void StagingPrinter::print_pointers(Writer& out, bool follows) const {
  KernelOp kernel = program_.kernel;
  for (mlir::Operation& op : kernel.block()) {
    if (!by_pointer(program_, &op)) continue;
    auto input = mlir::dyn_cast<InputOp>(op);
    auto output = mlir::dyn_cast<OutputOp>(op);
    std::string tensor = input ? input.getTensor().str() : output.getTensor().str(),
                member = "arguments." + names_.tensor(tensor);
    bool heads =
        input ? has_role(input.getResult(), AxisRole::Head) : lists(output.getAxes(), kernel.axis(AxisRole::Head));
    bool rows = input ? has_role(input.getResult(), AxisRole::Rows)
                      : lists(output.getAxes(), kernel.axis(AxisRole::Rows)) && output.getEvery() == 0;
    std::string head = heads ? "head" : "0";
    std::string at = rows && !program_.tile_major.count(tensor)
                         ? fmt::format("{}.at(where.batch, where.token, {})", member, head)
                         : fmt::format("{}.at({}, number, 0)", member, head);
    if (follows) {
      bool by_token = rows && !program_.tile_major.count(tensor);
      at = by_token ? fmt::format("before.{} + {} * {}.token", names_.tensor(tensor), program_.tiling.chunk, member)
                    : fmt::format("before.{} + {}.tile", names_.tensor(tensor), member);
    }
    if (input && input.getOptional()) at = fmt::format("{0}.data != nullptr ? {1} : nullptr", member, at);
    out.line(fmt::format("made.{} = {};", names_.tensor(tensor), at));
  }
}

void StagingPrinter::print_requests(Writer& out, int region, Carrier carrier) const {
  const Staging& staging = program_.staging;
  bool whole = staging.whole(region), steps = program_.regions[region].loop && !whole;
  if (carrier == Carrier::engine)
    out.line(fmt::format("expect_bytes(&arrivals[slot], {}, &next);", staging.bytes_of(region)));
  if (steps) {
    int first = program_.units_before(region), last = first + program_.tiling.steps - 1;
    std::string step = program_.regions[region].reverse ? fmt::format("{} - unit", last)
                       : first == 0                     ? "unit"
                                                        : fmt::format("unit - {}", first);
    out.line(fmt::format("const int first_row = ({}) * {};", step, program_.tiling.rows_per_step));
  }
  for (const StagedTensor& staged : staging.tensors) {
    if (staged.region != region) continue;
    InputOp input = staged.input;
    std::string place = fmt::format("operands + {}", staged.offset / 4);
    if (carrier == Carrier::engine) {
      std::string each = whole ? fmt::format("for (int step = 0; step < {}; ++step) ", staged.boxes) : "";
      if (whole) place += fmt::format(" + step * {}", staged.bytes / staged.boxes / 4);
      Corner corner = corner_of(program_, names_, input,
                                whole   ? fmt::format("step * {}", staged.rows)
                                : steps ? "first_row"
                                        : "0");
      out.line(fmt::format("{}fetch_box({}, arguments.{}, {}, {}, {}, &arrivals[slot]);", each, place,
                           names_.map(input.getTensor().str()), corner.first, corner.second, corner.third));
    } else {
      Corner corner = corner_of(program_, names_, input, steps ? "first_row" : "0");
      out.line(fmt::format("{}(reinterpret_cast<{}*>({}), {}, {}, {}, {}, {}, {});",
                           carrier == Carrier::threads ? "start_box" : "copy_box", storage_type(input.getStorage()),
                           place, corner.pointer, corner.stride, corner.rows, staged.rows * staged.boxes,
                           program_.tiling.dim, program_.tiling.threads));
    }
  }
}

void StagingPrinter::print_regions(Writer& out, Carrier carrier) const {
  bool alone = true;
  for (int r = 0, seen = 0; r < int(program_.regions.size()); ++r)
    alone = alone && (seen += program_.staging.holds(r)) < 2;
  for (int r = 0; r < int(program_.regions.size()); ++r) {
    if (!program_.staging.holds(r)) continue;
    if (alone) return print_requests(out, r, carrier);
    int first = program_.units_before(r), end = first + program_.units_of(r);
    out.open(first == 0 ? fmt::format("if (unit < {})", end) : fmt::format("if (unit >= {} && unit < {})", first, end));
    print_requests(out, r, carrier);
    out.close();
  }
}

void StagingPrinter::print_function(Writer& out) const {
  if (!any()) return;
  const Tiling& tiling = program_.tiling;
  int units = program_.units();
  out.line(fmt::format("/// Asks for the operands of tile `number`, one of the block's tiles begin..end-1. aligned: {}",
                       by_engine() ? "thread 0 asks the copy engine," : "the threads start copies,"));
  out.line(by_engine()
               ? "/// and whoever waits for the slot's counter sees them. Else all threads copy; seen after a barrier."
               : "/// each its own, and wait for them later. Else they copy at once. Seen after a barrier.");
  if (units > 1)
    out.line(fmt::format("/// `unit`: which of the {} portions, each the rows of a step or of all steps.", units));
  out.line("template <bool aligned>");
  // Never a function that is called: with the address of the arguments known elsewhere, the whole kernel gets slower.
  out.open(fmt::format(
      "KD_FUNCTION void {}_stage(const Arguments& arguments, float* shared, long long head, long long number, {}long long begin, long long end, int slot, int record)",
      kernel_, units > 1 ? "int unit, " : ""));
  if (by_engine()) {
    out.line("if (number >= end || (aligned && threadIdx.x != 0)) return;");
    out.line(fmt::format("Arrival* const arrivals = {};", arrivals()));
  } else {
    out.open("if (number >= end)");
    out.line("if constexpr (aligned) end_of_copies();  // of none: waits count the requests");
    out.line("return;");
    out.close();
  }
  out.line(fmt::format("Slot* const slots = {};", records()));
  out.line("Slot& next = slots[record];");
  out.line(by_engine() ? "(void)arrivals, (void)head;" : "(void)head;");
  out.open("if (threadIdx.x == 0)");
  out.line(
      "const long long* const sequence_start = arguments.cu_seqlens != nullptr ? arguments.sequence_start : nullptr;");
  // Thread 0 alone is not in the others' way when it keeps the record in registers; with all of them it is.
  const bool in_place = !by_engine() && units == 1;
  out.line(
      fmt::format("const Slot{} before = slots[record == 0 ? {} : record - 1];", in_place ? "&" : "", tiling.stages));
  out.line(in_place ? "Slot& made = next;" : "Slot made = before;");
  if (units > 1) out.open("if (unit == 0)");
  out.line(fmt::format("const StagedTile where = next_staged_tile(before.tile, {}, sequence_start);", tiling.chunk));
  out.line("made.tile = where;");
  out.open("if (number != begin && where.batch == before.tile.batch && where.sequence == before.tile.sequence)");
  out.line(fmt::format("// the next {} rows of the same sequence", tiling.chunk));
  print_pointers(out, true);
  out.close();
  out.open("else");
  print_pointers(out, false);
  out.close();
  if (units > 1) out.close();
  if (!in_place) out.line("next = made;");
  out.close();
  out.line(by_engine() ? "if constexpr (!aligned) block_barrier();  // the record is complete"
                       : "block_barrier();  // the record is complete");
  out.line("const Tile tile = tile_of(next.tile);");
  out.line(fmt::format("float* const operands = {};", slot_address("slot")));
  out.open("if constexpr (aligned)");
  print_regions(out, by_engine() ? Carrier::engine : Carrier::threads);
  if (!by_engine()) out.line("end_of_copies();");
  out.close();
  out.open("else");
  print_regions(out, Carrier::threads_element_by_element);
  out.close();
  out.close();
  out.line();
}

void StagingPrinter::print_start(Writer& out) const {
  const Tiling& tiling = program_.tiling;
  int units = program_.units();
  const char* what = units > 1 ? "portion" : "tile";
  out.line(fmt::format("// Operands travel {} {}{} ahead.", tiling.stages, what, tiling.stages == 1 ? "" : "s"));
  if (by_engine()) out.line(fmt::format("Arrival* const arrivals = {};", arrivals()));
  out.line(fmt::format("Slot* const slots = {};", records()));
  out.open("if (threadIdx.x == 0)");
  if (by_engine()) {
    out.open("if constexpr (aligned)");
    out.line(fmt::format("for (int slot = 0; slot < {}; ++slot) initialise_arrival(&arrivals[slot]);", tiling.stages));
    out.line("publish_arrivals();");
    out.close();
  }
  out.line("const long long* const first_tile = arguments.cu_seqlens != nullptr ? arguments.first_tile : nullptr;");
  out.line("// the first tile is found as the one after this");
  out.line(fmt::format(
      "if (begin < used_end) slots[{}] = Slot{{staged_tile_before(begin, {}, arguments.tokens, arguments.sequences, first_tile, arguments.sequence_start)}};",
      tiling.stages, tiling.chunk));
  out.close();
  out.line(fmt::format("block_barrier();  // {} is complete", by_engine() ? "arrivals" : "slots"));
  std::string portion = units > 1 ? fmt::format("begin + ahead / {0}, ahead % {0}", units) : "begin + ahead";
  out.line(fmt::format("for (int ahead = 0; ahead < {}; ++ahead) {}", tiling.stages, call(portion, "ahead", "ahead")));
  out.line(fmt::format(
      "// One record more than slots: the last {}'s is read to its end, while the next operands are asked for.", what));
  out.line("int slot = 0, record = 0;");
  if (by_engine()) out.line("unsigned phase = 0;");
  for (InputOp input : program_.staging.ahead)
    out.line(fmt::format("float {} = 0.0f;", names_.ahead(input.getTensor().str())));
}

void StagingPrinter::print_wait(Writer& out) const {
  if (by_engine()) {
    out.line("if constexpr (aligned) wait_for(&arrivals[slot], phase);");
    out.line("else block_barrier();  // the slot is complete");
  } else {
    out.line(fmt::format("if constexpr (aligned) wait_for_copies<{}>();", program_.tiling.stages - 1));
    out.line("block_barrier();  // the slot is complete");
  }
}

void StagingPrinter::print_arrival(Writer& out) const {
  print_wait(out);
  // The record of a tile of several portions is gone when its last one is computed.
  out.line(program_.units() > 1 ? "const Slot here = slots[record];" : "const Slot& here = slots[record];");
  out.line("const Tile tile = tile_of(here.tile);");
}

void StagingPrinter::print_operands(Writer& out, int region) const {
  if (!any() || !program_.staging.holds(region)) return;
  if (program_.units() > 1) print_wait(out);
  if (program_.units() > 1 && !program_.staging.whole(region)) {
    int first = program_.units_before(region), last = first + program_.tiling.steps - 1;
    out.line("const Slot& here = slots[record];");
    out.line(program_.regions[region].reverse ? fmt::format("const int unit = {} - step;", last)
                                              : fmt::format("const int unit = {} + step;", first));
  }
  out.line(fmt::format("const float* const operands = {};", slot_address("slot")));
  for (const StagedTensor& staged : program_.staging.tensors) {
    if (staged.region != region) continue;
    InputOp input = staged.input;
    std::string type = storage_type(input.getStorage()), name = names_.staged(input.getTensor().str());
    std::string address = staged.offset == 0 ? "operands" : fmt::format("operands + {}", staged.offset / 4);
    if (type == "float")
      out.line(fmt::format("const float* const {} = {};", name, address));
    else
      out.line(fmt::format("const {0}* const {1} = reinterpret_cast<const {0}*>({2});", type, name, address));
  }
}

void StagingPrinter::print_restage(Writer& out, int region) const {
  bool whole = program_.staging.whole(region);
  int stages = program_.tiling.stages, units = program_.units(), ahead = program_.units_before(region) + stages;
  std::string portion = units == 1 ? fmt::format("number + {}", stages)
                        : whole    ? fmt::format("number + {}, {}", ahead / units, ahead % units)
                                   : fmt::format("number + (unit + {0}) / {1}, (unit + {0}) % {1}", stages, units);
  out.line(call(portion, "slot", fmt::format("record == 0 ? {} : record - 1", stages)));
  if (whole) out.line(next_unit() + ";");
}

std::string StagingPrinter::next_unit() const {
  const int stages = program_.tiling.stages;
  const std::string slot = by_engine() ? fmt::format("next_slot(slot, phase, {})", stages)
                                       : fmt::format("slot = slot == {} ? 0 : slot + 1", stages - 1);
  return fmt::format("{0}, record = record == {1} ? 0 : record + 1", slot, stages);
}

}  // namespace kdagen::emit
