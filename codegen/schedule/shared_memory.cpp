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
constexpr int kStaticFloats = 48 * 1024 / 4;
int aligned(int floats) { return (floats + 3) / 4 * 4; }

struct Interval {
  int first = 1 << 30, last = -1;
  void add(int at) { first = std::min(first, at); last = std::max(last, at); }
};

/// First and last statement of each buffer's life, in text order; a buffer that outlives one step of a loop lives
/// through the whole loop.
std::vector<Interval> lifetimes(const Program& program) {
  std::vector<Interval> lives(program.buffers.size());
  int at = 0;
  for (const Region& region : program.regions) {
    int begin = at, end = at + int(region.statements.size());
    for (const Statement& s : region.statements) {
      if (s.buffer >= 0 && s.kind != Kind::Barrier) {
        bool whole = region.loop && program.buffers[s.buffer].layout != Layout::StepTile;
        lives[s.buffer].add(whole ? begin : at);
        lives[s.buffer].add(whole ? end : at);
      }
      ++at;
    }
    at = end + 1;
  }
  for (const Statement& s : program.owner_statements)  // no barrier parts them from the tiles
    if (s.buffer >= 0) lives[s.buffer].add(0), lives[s.buffer].add(at);
  return lives;
}
}  // namespace

void place_buffers(Program& program) {
  int total = 0;
  for (Buffer& buffer : program.buffers) {
    buffer.offset = total;
    total += aligned(buffer_floats(buffer, program.tiling));
  }
  program.shared_floats = total;
  if (total <= kStaticFloats) return;
  // First fit in order of size, against those already placed whose lives overlap.
  auto lives = lifetimes(program);
  std::vector<int> order(program.buffers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = int(i);
  auto size = [&](int i) { return aligned(buffer_floats(program.buffers[i], program.tiling)); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return size(a) > size(b); });
  std::vector<int> placed;
  total = 0;
  for (int i : order) {
    int offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (int j : placed) {
        bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
        int begin = program.buffers[j].offset, end = begin + size(j);
        if (together && offset < end && begin < offset + size(i)) { offset = end; moved = true; }
      }
    }
    program.buffers[i].offset = offset;
    total = std::max(total, offset + size(i));
    placed.push_back(i);
  }
  program.shared_floats = total;
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
      if ((clash = overlapping(read_, s.buffer)) < 0) clash = overlapping(written_, s.buffer);
      note = "free";
    }
    if (clash >= 0) {
      region.statements.insert(region.statements.begin() + i, {Kind::Barrier, s.map, nullptr, {}, clash, note});
      return true;
    }
    if (reads_buffer(s.kind)) read_.insert(s.buffer);
    if (writes_buffer(s.kind)) written_.insert(s.buffer);
    return false;
  }

  int overlapping(const std::set<int>& buffers, int buffer) const {
    auto range = [&](int i) {
      const Buffer& b = program_.buffers[i];
      return std::make_pair(b.offset, b.offset + buffer_floats(b, program_.tiling));
    };
    auto [begin, end] = range(buffer);
    for (int other : buffers) {
      auto [first, last] = range(other);
      if (first < end && begin < last) return other;
    }
    return -1;
  }

  Program& program_;
  std::set<int> written_, read_;
};
}  // namespace

void insert_barriers(Program& program) {
  Races races(program);
  while (races.mend_one()) {}
}

}  // namespace kdagen::schedule
