// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/shared_memory.h"

#include <algorithm>
#include <vector>

namespace kdagen::schedule {

bool writes_buffer(Kind kind) {
  return kind == Kind::Publish || kind == Kind::ScanBlocks || kind == Kind::BlockTotals || kind == Kind::PublishLast;
}
bool reads_buffer(Kind kind) {
  return kind == Kind::Fetch || kind == Kind::FetchShifted || kind == Kind::FetchBoundary || kind == Kind::ScanCarry ||
         kind == Kind::RowScan || kind == Kind::Total || kind == Kind::RowTotal;
}

int buffer_floats(const Buffer& buffer, const Tiling& tiling) {
  switch (buffer.layout) {
    case Layout::StepTile:
      return tiling.rows_per_step * tiling.width;
    case Layout::ChunkTile:
      return tiling.total_rows() * tiling.width;
    case Layout::ChunkRows:
      return tiling.total_rows();
    case Layout::Columns:
      return std::max(tiling.width, 4);
    case Layout::BlockColumns:
      return tiling.total_blocks() * tiling.width;
    case Layout::OwnerRows:
      return tiling.threads;
    case Layout::OwnerTiles:
      return std::max(tiling.owned_tiles(), 4);
  }
  return 0;
}

bool own_elements(const Program& program, const Statement& read, const Statement& write) {
  Layout from = program.buffers[read.buffer].layout, to = program.buffers[write.buffer].layout;
  return read.kind == Kind::Fetch && write.kind == Kind::Publish && read.map == write.map && from == to &&
         (to == Layout::StepTile || to == Layout::ChunkTile);
}

namespace {
class Races {
 public:
  explicit Races(Program& program) : program_(program) {}

  /// Inserts one barrier and says so; false when no race is left.
  bool mend_one() {
    written_.clear();
    read_.clear();
    time_ = 0;
    for (int tile = 0; tile < 2; ++tile)
      for (int r = 0; r < int(program_.regions.size()); ++r) {
        const Region& region = program_.regions[r];
        entered_ = time_;
        for (int round = 0; round < (region.loop ? 2 : 1); ++round)
          for (size_t i = 0; i < program_.regions[r].statements.size(); ++i, ++time_)
            if (mend(r, i, region.reverse ? 1 - round : round)) return true;
      }
    return false;
  }

 private:
  /// `part`: the step whose rows (or blocks of rows) of a buffer for the whole chunk are touched; -1 for any.
  struct Access {
    const Statement* statement;
    int part;
    int time;
  };

  bool mend(int number, size_t i, int step) {
    Region& region = program_.regions[number];
    Statement& s = region.statements[i];
    if (s.kind == Kind::Barrier) {
      written_.clear();
      read_.clear();
      return false;
    }
    if (s.buffer < 0) return false;
    const Access access{&s, region.loop && stays_in_step(s) ? step : -1, time_};
    const Access* clash = reads_buffer(s.kind) ? clash_with(written_, access) : nullptr;
    std::string note = "complete";
    if (writes_buffer(s.kind) && !clash) {
      clash = clash_with(read_, access);
      if (!clash) clash = clash_with(written_, access);
      note = "free";
    }
    if (clash) {
      const Statement barrier{Kind::Barrier, s.map, nullptr, {}, clash->statement->buffer, note};
      // What was touched before a loop is seen to in front of the loop, once, not in every step.
      bool in_front = region.loop && number > 0 && clash->time < entered_;
      auto& statements = in_front ? program_.regions[number - 1].statements : region.statements;
      statements.insert(in_front ? statements.end() : statements.begin() + i, barrier);
      return true;
    }
    if (reads_buffer(s.kind)) read_.push_back(access);
    if (writes_buffer(s.kind)) written_.push_back(access);
    return false;
  }

  /// Whether a statement of a step touches nothing of a buffer that belongs to another step.
  bool stays_in_step(const Statement& s) const {
    Layout layout = program_.buffers[s.buffer].layout;
    bool by_row = s.kind == Kind::Publish || s.kind == Kind::Fetch,
         by_block = s.kind == Kind::ScanBlocks || s.kind == Kind::ScanCarry || s.kind == Kind::BlockTotals;
    return (by_row && (layout == Layout::ChunkTile || layout == Layout::ChunkRows)) ||
           (by_block && layout == Layout::BlockColumns);
  }

  bool overlap(int a, int b) const {
    const Buffer &x = program_.buffers[a], &y = program_.buffers[b];
    return x.offset < y.offset + buffer_floats(y, program_.tiling) &&
           y.offset < x.offset + buffer_floats(x, program_.tiling);
  }

  /// An earlier access to the same memory by other threads, or null.
  const Access* clash_with(const std::vector<Access>& earlier, const Access& access) const {
    for (const Access& other : earlier) {
      int a = other.statement->buffer, b = access.statement->buffer;
      bool other_step = a == b && other.part >= 0 && access.part >= 0 && other.part != access.part;
      bool own = program_.buffers[a].offset == program_.buffers[b].offset &&
                 own_elements(program_, *other.statement, *access.statement);
      if (!other_step && !own && overlap(a, b)) return &other;
    }
    return nullptr;
  }

  Program& program_;
  std::vector<Access> written_, read_;  // since the last barrier
  int time_ = 0, entered_ = 0;          // of the statement, and of the start of its region
};
}  // namespace

void insert_barriers(Program& program) {
  Races races(program);
  while (races.mend_one()) {
  }
}

}  // namespace kdagen::schedule
