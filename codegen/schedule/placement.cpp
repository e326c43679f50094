// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "codegen/schedule/shared_memory.h"

namespace kdagen::schedule {
namespace {
constexpr int kStaticFloats = 48 * 1024 / 4;

int size_of(const Program& program, int buffer) {
  return (buffer_floats(program.buffers[buffer], program.tiling) + 3) / 4 * 4;
}

/// One access, where `phase` counts the barriers before it and `order` the statements.
struct Access {
  int phase, order;
  const Statement* statement;
};

/// A buffer's accesses from the first write of its content to the last read, in order.
using Span = std::vector<Access>;

/// Two tiles in a row, each with two rounds of its loops: whatever can follow whatever does so here.
std::vector<std::vector<Span>> spans_of(const Program& program) {
  std::map<std::tuple<int, int, int, int>, Span> spans;  // by buffer and what its content lasts for
  int phase = 0, order = 0;
  for (int tile = 0; tile < 2; ++tile)
    for (int r = 0; r < int(program.regions.size()); ++r)
      for (int step = 0; step < (program.regions[r].loop ? 2 : 1); ++step)
        for (const Statement& s : program.regions[r].statements) {
          ++order;
          if (s.kind == Kind::Barrier) {
            ++phase;
            continue;
          }
          if (s.buffer < 0) continue;
          bool of_step = program.buffers[s.buffer].layout == Layout::StepTile;
          spans[{s.buffer, tile, of_step ? r : -1, of_step ? step : -1}].push_back({phase, order, &s});
        }
  std::vector<std::vector<Span>> result(program.buffers.size());
  for (auto& [key, span] : spans) result[std::get<0>(key)].push_back(std::move(span));
  return result;
}

/// Whether each thread has read its elements of `from` for the last time when it writes the same elements of `to`.
bool hands_over(const Program& program, const Span& from, const Span& to) {
  const int phase = from.back().phase;
  if (to.front().phase != phase || from.back().order >= to.front().order) return false;
  return llvm::all_of(from, [&](const Access& read) {
    return llvm::all_of(to, [&](const Access& write) {
      return read.phase != phase || write.phase != phase || own_elements(program, *read.statement, *write.statement);
    });
  });
}

enum class Neighbours { Apart, SamePlace, Free };  // must not overlap; only at the same offset; may overlap in any way

Neighbours neighbours(const Program& program, const std::vector<std::vector<Span>>& spans, int a, int b) {
  if (spans[a].empty() || spans[b].empty())
    return Neighbours::Apart;  // of the row owners: no barrier parts them from the tiles
  Neighbours result = Neighbours::Free;
  for (const Span& x : spans[a])
    for (const Span& y : spans[b]) {
      if (x.back().phase < y.front().phase || y.back().phase < x.front().phase) continue;
      if (!hands_over(program, x, y) && !hands_over(program, y, x)) return Neighbours::Apart;
      result = Neighbours::SamePlace;
    }
  return result;
}

int side_by_side(Program& program) {
  int total = 0;
  for (int i = 0; i < int(program.buffers.size()); ++i) {
    program.buffers[i].offset = total;
    total += size_of(program, i);
  }
  return total;
}

/// First fit in order of size. Returns the floats that it takes.
template <class Relation>
int first_fit(Program& program, Relation relation) {
  std::vector<int> order(program.buffers.size()), placed;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return size_of(program, a) > size_of(program, b); });
  int total = 0;
  for (int i : order) {
    int offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (int j : placed) {
        int begin = program.buffers[j].offset, end = begin + size_of(program, j);
        if (offset >= end || begin >= offset + size_of(program, i)) continue;
        Neighbours how = relation(i, j);
        if (how == Neighbours::Free ||
            (how == Neighbours::SamePlace && offset == begin && size_of(program, i) == size_of(program, j)))
          continue;
        offset = end;
        moved = true;
      }
    }
    program.buffers[i].offset = offset;
    total = std::max(total, offset + size_of(program, i));
    placed.push_back(i);
  }
  return total;
}

/// First and last statement of each buffer's life, in text order; a buffer that outlives one step of a loop lives
/// through the whole loop.
std::vector<std::pair<int, int>> lifetimes(const Program& program) {
  std::vector<std::pair<int, int>> lives(program.buffers.size(), {1 << 30, -1});
  auto add = [&](int buffer, int at) {
    lives[buffer] = {std::min(lives[buffer].first, at), std::max(lives[buffer].second, at)};
  };
  int at = 0;
  for (const Region& region : program.regions) {
    int begin = at, end = at + int(region.statements.size());
    for (const Statement& s : region.statements) {
      if (s.buffer >= 0 && s.kind != Kind::Barrier) {
        bool whole = region.loop && program.buffers[s.buffer].layout != Layout::StepTile;
        add(s.buffer, whole ? begin : at);
        add(s.buffer, whole ? end : at);
      }
      ++at;
    }
    at = end + 1;
  }
  for (const Statement& s : program.owner_statements)  // no barrier parts them from the tiles
    if (s.buffer >= 0) add(s.buffer, 0), add(s.buffer, at);
  return lives;
}
}  // namespace

void place_buffers(Program& program) {
  side_by_side(program);
  Program apart = program;
  insert_barriers(apart);
  auto spans = spans_of(apart);
  program.shared_floats = first_fit(program, [&](int a, int b) { return neighbours(program, spans, a, b); });
  if (program.shared_floats <= kStaticFloats) return;
  Program closer = program;
  auto lives = lifetimes(program);
  closer.shared_floats = first_fit(closer, [&](int a, int b) {
    return lives[a].first <= lives[b].second && lives[b].first <= lives[a].second ? Neighbours::Apart
                                                                                  : Neighbours::Free;
  });
  if (closer.shared_floats < program.shared_floats) program = std::move(closer);
}

}  // namespace kdagen::schedule
