// SPDX-License-Identifier: Apache-2.0
// The text that moves operands to shared memory ahead of the tile that reads them (codegen/schedule/staging.h).
#pragma once
#include "codegen/emit/names.h"
#include "codegen/emit/writer.h"

namespace kdagen::emit {

/// Prints the statements around the loop over tiles; nothing for a program with plain loads.
class StagingPrinter {
 public:
  StagingPrinter(const schedule::Program& program, const Names& names, const std::string& kernel)
      : program_(program), names_(names), kernel_(kernel) {}

  bool any() const { return program_.tiling.stages > 0; }
  /// struct Slot, after the argument struct.
  void print_record(Writer& out) const;
  /// KERNEL_stage(arguments, shared, head, number, begin, end, slot, record): asks for a tile's operands.
  void print_function(Writer& out) const;
  /// In front of the loop: counters, the first requests, slot and phase. `begin` up to `used_end` are the block's
  /// tiles.
  void print_start(Writer& out) const;
  /// At the start of a tile: waits, and says where the tile lies.
  void print_arrival(Writer& out) const;
  /// At the start of a region (of its step, unless all steps arrive at once): waits for its portion, and pointers to
  /// the operands.
  void print_operands(Writer& out, int region) const;
  /// After the last read of an operand and a barrier.
  void print_restage(Writer& out, int region) const;
  /// For the head of the loop over tiles or over the steps of a region: ", next_slot(...)" where a portion ends there.
  std::string advance_tile() const { return any() && program_.units() == 1 ? ", " + next_unit() : ""; }
  std::string advance_step(int region) const {
    return any() && program_.units() > 1 && program_.staging.holds(region) && !program_.staging.whole(region)
               ? ", " + next_unit()
               : "";
  }
  /// "const __grid_constant__ Arguments arguments": maps must stay where the launch put them.
  std::string parameter() const {
    return any() && by_engine() ? "const __grid_constant__ Arguments arguments" : "const Arguments arguments";
  }

 private:
  enum class Carrier { engine, threads, threads_element_by_element };
  bool by_engine() const { return program_.staging.by_engine; }
  void print_wait(Writer& out) const;
  void print_regions(Writer& out, Carrier carrier) const;
  void print_requests(Writer& out, int region, Carrier carrier) const;
  std::string next_unit() const;
  std::string arrivals() const;
  std::string records() const;
  void print_pointers(Writer& out, bool follows) const;
  std::string call(const std::string& number, const std::string& slot, const std::string& record) const;
  std::string slot_address(const std::string& slot) const;

  const schedule::Program& program_;
  const Names& names_;
  std::string kernel_;
};

}  // namespace kdagen::emit
