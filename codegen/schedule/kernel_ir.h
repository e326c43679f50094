// SPDX-License-Identifier: Apache-2.0
// Kernel IR: what the scheduler decides and the emitter prints. Statements move *fragments* (a kda value in one of the
// two thread maps) between registers, shared memory and global memory. See docs/design/kernel-ir.md.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "codegen/ir/Dialect.h"

namespace kdagen::schedule {

/// A map of tile axes to threads. Row: `lanes` lanes a row, a lane owning columns 4l..4l+3 and n/2+4l..+3 of one row.
/// Column: a thread owns one column and the 8 rows of one scan block.
enum class Map : uint8_t { Row, Column };
inline Map other(Map map) { return map == Map::Row ? Map::Column : Map::Row; }

/// Which tile axes a value has.
enum class Shape : uint8_t { Tile, Rows, Columns, Single };
Shape shape_of(mlir::Value value);
/// Elements of a value that one thread holds in this map: 8 or 1.
inline bool is_array(Shape shape, Map map) {
  return shape == Shape::Tile || shape == (map == Map::Row ? Shape::Columns : Shape::Rows);
}

/// Tile geometry and launch shape: one point of the tuning space.
struct Tiling {
  int chunk = 16;          // rows of a tile
  int dim = 128;           // columns
  int width = 128;         // dim rounded up to a power of two; 1 without a feature axis
  int lanes = 16;          // lanes a row
  int threads = 256;       // threads a block
  int rows_per_step = 16;  // threads / lanes
  int steps = 1;           // steps a tile
  int tiles_per_block = 8;
  int min_blocks = 2;         // residency asked of the compiler
  bool heads_fastest = true;  // neighbouring blocks work on neighbouring heads
  int stages = 0;             // tiles whose operands are in shared memory or on their way to it; 0: plain loads
  int blocks_per_step() const { return rows_per_step / 8; }  // scan blocks of 8 rows
  int owned_tiles() const { return threads / chunk; }        // with a thread for each of their rows
  int total_rows() const { return steps * rows_per_step; }
  int total_blocks() const { return total_rows() / 8; }
};

/// Tiles in a segment of parameter sums (design: 8 consecutive tiles of a head).
inline constexpr int kTilesPerSegment = 8;

enum class Layout : uint8_t {
  StepTile,      // [rows_per_step][width]
  ChunkTile,     // [total_rows][width]
  ChunkRows,     // [total_rows]
  Columns,       // [width]
  BlockColumns,  // [total_blocks][width]: one number a column and scan block
  OwnerRows,     // [threads]: one number of each row owner
  OwnerTiles,    // [owned_tiles]: one number a tile
};

/// A piece of shared memory.
struct Buffer {
  std::string name;
  Layout layout;
  mlir::Value value;  // what it holds (or sums)
  int offset = 0;     // floats from the start of the block's shared memory
};

enum class Kind : uint8_t {
  Load,           // value (kda.input) from global memory
  Pointwise,      // op, element by element
  RowReduce,      // op: sum or maximum over the columns of a row
  Publish,        // value to buffer
  Fetch,          // value from buffer
  ScanBlocks,     // op: sums inside blocks of 8 rows; block sums to buffer
  ScanCarry,      // op: adds the sums of the blocks before
  RowScan,        // op: scan of one number a row, from buffer
  BlockTotals,    // op: sum (or maximum) of each block of 8 rows to buffer
  Total,          // op: from the block totals in buffer
  RowTotal,       // op: total of one number a row, from buffer
  PublishLast,    // op (kda.last): the last valid row to buffer
  FetchShifted,   // op (kda.shift): another row of buffer
  FetchBoundary,  // op (kda.boundary): the last row before the row's sub-chunk, of buffer
  Store,          // op (kda.output) to global memory
  Accumulate,     // op (sum over tiles): adds this tile's total to the running sum; from buffer when it has rows
  Barrier,
  LoadAhead,  // value (kda.input, one number a row) of the next tile
  Restage,    // the slot of this portion of `region` is free: asks for the operands of the portion `stages` ahead
};

struct Statement {
  Kind kind;
  Map map = Map::Row;
  mlir::Operation* op = nullptr;
  mlir::Value value;
  int buffer = -1;
  std::string note;  // Barrier: the hazard it serves
  int region = -1;   // Restage: whose portion
};

/// Straight code, or a loop over the steps of a tile.
struct Region {
  bool loop = false;
  bool reverse = false;
  std::vector<Statement> statements;
};

/// A sum over tiles: the running sum a block keeps, and where it goes.
struct ParameterSum {
  kda::SumOp op;
  Shape partial;  // Columns or Single: what is kept until the finish kernel
  std::string name;
  bool by_owners = false;  // not kept by the block: see row_owners.h
};

/// An input tensor of which a region reads a box at a time: the rows of a step, or one row a tile.
struct StagedTensor {
  kda::InputOp input;
  int region = 0;  // of Program::regions
  int rows = 1;    // of a box
  int boxes = 1;   // a portion holds: one, or those of all steps
  int offset = 0;  // bytes from the start of a slot
  int bytes = 0;
};

/// Operands that arrive while earlier ones are computed with. A unit is what a slot of shared memory holds: the
/// operands of one step of one region (of a tile, where that is one step), or of all its steps where those take no more
/// than another region's step. There are `tiling.stages` slots, all alike.
struct Staging {
  bool by_engine = true;              // one thread asks the copy engine for boxes; else all threads copy, 16 bytes each
  std::vector<StagedTensor> tensors;  // regions ascending
  int control_offset = 0;             // bytes from the start of shared memory: counters and records
  int slots_offset = 0;
  int slot_bytes = 0;
  std::vector<kda::InputOp> ahead;  // row scalars loaded a tile ahead into a register

  bool is_ahead(mlir::Operation* op) const {
    return llvm::any_of(ahead, [&](kda::InputOp input) { return input.getOperation() == op; });
  }
  bool holds(int region) const {
    for (const StagedTensor& tensor : tensors)
      if (tensor.region == region) return true;
    return false;
  }
  /// Whether the region's operands of all steps arrive as one portion.
  bool whole(int region) const {
    for (const StagedTensor& tensor : tensors)
      if (tensor.region == region && tensor.boxes > 1) return true;
    return false;
  }
  int bytes_of(int region) const {
    int bytes = 0;
    for (const StagedTensor& tensor : tensors) bytes += tensor.region == region ? tensor.bytes : 0;
    return bytes;
  }
};

struct Program {
  kda::KernelOp kernel;
  Tiling tiling;
  std::vector<Statement> prologue;          // once a block: parameter-only values
  std::vector<Region> regions;              // for each tile
  std::vector<Statement> owner_statements;  // for all tiles of a block, before the first, by a thread a row
  std::vector<Buffer> buffers;
  std::vector<ParameterSum> parameter_sums;
  std::set<std::string> tile_major;  // cotangents stored tile by tile
  Staging staging;
  int shared_floats = 0;  // buffers and staging

  bool is_owned(mlir::Operation* op) const {
    return llvm::any_of(owner_statements, [&](const Statement& s) { return s.op == op; });
  }

  /// Units of a region, and of the regions before it (of all: regions.size()).
  int units_of(int region) const {
    return !staging.holds(region) ? 0 : regions[region].loop && !staging.whole(region) ? tiling.steps : 1;
  }
  int units_before(int region) const {
    int units = 0;
    for (int r = 0; r < region; ++r) units += units_of(r);
    return units;
  }
  int units() const { return units_before(int(regions.size())); }
};

}  // namespace kdagen::schedule
