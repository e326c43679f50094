// SPDX-License-Identifier: Apache-2.0
// Prints the statements of a kernel program. No decisions are left here but how a line looks.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "codegen/emit/expressions.h"
#include "codegen/emit/writer.h"
#include "codegen/schedule/kernel_ir.h"

namespace kdagen::emit {

/// Where the text stands: inside a tile of the main kernel, in the part of a tile that is done by a thread a row, or in
/// the finish kernel (one row, no tile).
enum class Place { Tile, Owners, Finish };

class StatementPrinter {
 public:
  StatementPrinter(const schedule::Program& program, const Names& names, Writer& out, Place place);

  /// Prints a list; consecutive element-wise statements of one shape share a loop.
  void print(const std::vector<schedule::Statement>& statements);
  /// Helper functions that the printed statements call ("row_sum", ...).
  const std::set<std::string>& helpers() const { return helpers_; }
  /// How a Restage statement reads.
  void set_restage(std::function<void(Writer&, int region)> print) { restage_ = std::move(print); }
  /// Staged operands of all steps are there: a row of them is found by its number in the tile.
  void set_whole(bool whole) { whole_ = whole; }
  /// Variables that a later list reads: they are declared as arrays or named values even if this list alone would not
  /// need them.
  void keep(mlir::Value value, schedule::Map map) {
    if (value) kept_.insert(key_of(value, map));
  }

 private:
  using Statement = schedule::Statement;
  using Map = schedule::Map;
  /// A value in a map; one number a tile is the same variable in both.
  using Key = std::pair<void*, int>;
  static Key key_of(mlir::Value value, Map map) {
    return {value.getAsOpaquePointer(), schedule::shape_of(value) == schedule::Shape::Single ? 0 : int(map)};
  }
  struct Group {
    size_t begin, end;
  };

  void count_uses(const std::vector<Statement>& statements);
  void print_group(const std::vector<Statement>& statements, Group group);
  void print_one(const Statement& s);
  void print_load(const Statement& s);
  void print_load_ahead(const Statement& s);
  void print_store(const Statement& s);
  void print_publish(const Statement& s);
  void print_fetch(const Statement& s);
  void print_row_reduce(const Statement& s);
  std::string row_array(mlir::Value value, schedule::Map map);
  void print_scan_blocks(const Statement& s);
  void print_scan_carry(const Statement& s);
  void print_block_totals(const Statement& s);
  void print_total(const Statement& s);
  void print_row_scan(const Statement& s);
  void print_tile_total(const Statement& s);
  void print_last_and_shift(const Statement& s);
  void print_boundary(const Statement& s);
  void print_subchunks(const Statement& s);
  void print_barrier(const Statement& s);

  /// The element `i` of a value in this map (or the value itself where a thread holds one).
  Expression element(mlir::Value value, Map map);
  Expression element_of(mlir::Operation* op, Map map);
  std::string name(mlir::Value value, Map map) const { return names_.of(value, map); }
  std::string tag(mlir::Operation* op) const;
  bool array(mlir::Value value, Map map) const { return schedule::is_array(schedule::shape_of(value), map); }
  /// The pointer to a tensor's features for this thread: arguments.q.at(tile.batch, tile.token + row, head).
  std::string address(const std::string& tensor, mlir::ArrayAttr axes, mlir::Value value, Map map) const;
  std::string open_column(const std::string& tensor, mlir::ArrayAttr axes, const std::string& type);
  /// The same for sub-chunk `part` of a tensor that has a row of each.
  std::string subchunk_address(kda::OutputOp output, const std::string& part) const;
  std::string row_expression(Map map) const;
  std::string row_present(Map map) const;  // the condition
  std::string step_row(Map map) const;
  std::string column_present() const;  // "" where every column is in the tensor
  std::string buffer_index(const schedule::Buffer& buffer, const std::string& row, const std::string& column) const;
  std::string local_row(const schedule::Buffer& buffer, Map map) const;
  bool inlined(mlir::Value value, Map map) const;
  /// A row sum whose terms are products: row_dot takes the factors.
  bool sums_products(const Statement& reduce) const;

  const schedule::Program& program_;
  const Names& names_;
  Writer& out_;
  Place place_;
  std::set<std::string> helpers_;
  std::function<void(Writer&, int)> restage_;
  bool whole_ = false;
  std::map<Key, int> uses_, group_uses_;  // all uses; those inside the group that defines the value
  std::map<Key, int> group_of_;
  std::set<Key> kept_;
  std::set<Key> loop_locals_;  // variables of the loop being printed
};

/// Sub-chunks of a tile in a tensor that has a row of each.
int subchunks(const schedule::Tiling& tiling, kda::OutputOp output);
/// C++ type of a storage type: bf16, fp16, float, signed char, int.
std::string storage_type(mlir::Type storage);
/// C++ type of a number in registers and shared memory (float, Fixed<24>), and its 0.
std::string value_type(mlir::Value value);
std::string zero_of(mlir::Value value);
/// Whether the kernel writes integers: its text then includes their prelude.
bool has_integers(kda::KernelOp kernel);
/// Whether the kernel has fixed-point values: its text then includes their prelude.
bool has_fixed_point(kda::KernelOp kernel);

}  // namespace kdagen::emit
