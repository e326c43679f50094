// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/shared_memory.h"

#include <algorithm>
#include <set>

namespace kdagen::schedule {

bool writes_buffer(Kind kind) {
  return kind == Kind::Publish || kind == Kind::ScanBlocks || kind == Kind::BlockTotals || kind == Kind::PublishLast;
}
bool reads_buffer(Kind kind) {
  return kind == Kind::Fetch || kind == Kind::FetchShifted || kind == Kind::ScanCarry || kind == Kind::RowScan ||
         kind == Kind::Total || kind == Kind::RowTotal;
}

int buffer_floats(const Buffer& buffer, const Tiling& tiling) {
  switch (buffer.layout) {
    case Layout::StepTile: return tiling.rows_per_step * tiling.width;
    case Layout::ChunkTile: return tiling.total_rows() * tiling.width;
    case Layout::ChunkRows: return tiling.total_rows();
    case Layout::Columns: return std::max(tiling.width, 4);
    case Layout::BlockColumns: return tiling.total_blocks() * tiling.width;
    case Layout::OwnerRows: return tiling.threads;
    case Layout::OwnerTiles: return std::max(tiling.owned_tiles(), 4);
  }
  return 0;
}

namespace {
class Races {
 public:
  explicit Races(Program& program) : program_(program) {}

  /// Inserts one barrier and says so; false when no race is left.
  bool mend_one() {
    written_.clear();
    read_.clear();
    for (int tile = 0; tile < 2; ++tile)
      for (Region& region : program_.regions)
        for (int step = 0; step < (region.loop ? 2 : 1); ++step)
          for (size_t i = 0; i < region.statements.size(); ++i)
            if (mend(region, i)) return true;
    return false;
  }

 private:
  bool mend(Region& region, size_t i) {
    Statement& s = region.statements[i];
    if (s.kind == Kind::Barrier) {
      written_.clear();
      read_.clear();
      return false;
    }
    if (s.buffer < 0) return false;
    int clash = -1;
    std::string note;
    if (reads_buffer(s.kind) && (clash = overlapping(written_, s.buffer)) >= 0) note = "complete";
    if (writes_buffer(s.kind) && clash < 0) {
      if ((clash = read_by_others(s)) < 0) clash = overlapping(written_, s.buffer);
      note = "free";
    }
    if (clash >= 0) {
      region.statements.insert(region.statements.begin() + i, {Kind::Barrier, s.map, nullptr, {}, clash, note});
      return true;
    }
    if (reads_buffer(s.kind)) read_.push_back(&s);
    if (writes_buffer(s.kind)) written_.insert(s.buffer);
    return false;
  }

  bool overlap(int a, int b) const {
    const Buffer &x = program_.buffers[a], &y = program_.buffers[b];
    return x.offset < y.offset + buffer_floats(y, program_.tiling) && y.offset < x.offset + buffer_floats(x, program_.tiling);
  }

  int overlapping(const std::set<int>& buffers, int buffer) const {
    for (int other : buffers)
      if (overlap(other, buffer)) return other;
    return -1;
  }

  /// A buffer read since the last barrier where this statement writes, unless each thread read just the elements that it writes.
  int read_by_others(const Statement& write) const {
    const Buffer& to = program_.buffers[write.buffer];
    for (const Statement* read : read_) {
      const Buffer& from = program_.buffers[read->buffer];
      bool own = read->kind == Kind::Fetch && write.kind == Kind::Publish && read->map == write.map && from.layout == to.layout &&
                 from.offset == to.offset && (to.layout == Layout::StepTile || to.layout == Layout::ChunkTile);
      if (!own && overlap(read->buffer, write.buffer)) return read->buffer;
    }
    return -1;
  }

  Program& program_;
  std::set<int> written_;
  std::vector<const Statement*> read_;
};
}  // namespace

void insert_barriers(Program& program) {
  Races races(program);
  while (races.mend_one()) {}
}

}  // namespace kdagen::schedule
