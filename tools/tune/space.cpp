// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/space.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include <fmt/format.h>

#include "codegen/schedule/schedule.h"
#include "kdagen/error.h"

namespace kdagen::tune {
namespace {

constexpr int reserved_bytes = 1024;  // of shared memory, for each resident block
// On its way to a multiprocessor: latency times its share of the bandwidth is some 25 to 64 KiB.
constexpr int fewest_bytes_in_flight = 8 << 10, most_bytes_in_flight = 256 << 10;

using Values = std::vector<int>;

struct Space {
  Values threads, tiles, blocks{1, 2, 3, 4, 5, 6, 7, 8}, heads, stages{0, 1, 2, 3, 4};
};

void include(Values& values, int value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  std::sort(values.begin(), values.end());
}

/// The default's values are always among them.
Space space_around(const schedule::Tiling& tiling, Layout layout) {
  Space space;
  // More threads than elements of a tile (8 a thread) would idle.
  const int most = std::min(1024, static_cast<int>(std::bit_ceil(static_cast<unsigned>(tiling.chunk * tiling.lanes))));
  for (int threads = 32; threads <= most; threads *= 2) space.threads.push_back(threads);
  space.tiles = {2, 4, 8, 16, 32};
  space.heads = {int(tiling.heads_fastest)};
  if (layout == Layout::bthd) include(space.heads, !tiling.heads_fastest);
  include(space.threads, tiling.threads);
  include(space.tiles, tiling.tiles_per_block);
  include(space.blocks, tiling.min_blocks);
  include(space.stages, tiling.stages);
  return space;
}

int index_of(const Values& values, int value) {
  return static_cast<int>(std::find(values.begin(), values.end(), value) - values.begin());
}

Candidate candidate(const Space& space, const schedule::Tiling& tiling) {
  return {{index_of(space.threads, tiling.threads), index_of(space.tiles, tiling.tiles_per_block),
           index_of(space.blocks, tiling.min_blocks), index_of(space.heads, tiling.heads_fastest),
           index_of(space.stages, tiling.stages)},
          schedule::tiling_text(tiling)};
}

/// Threads and stages decide what a block takes; nothing when the scheduler refuses them or does otherwise.
std::optional<ScheduleFigures> figures_of(Compilation& compilation, const std::string& arch, int threads, int stages) {
  try {
    const ScheduleFigures figures =
        schedule_figures(compilation, arch, fmt::format("threads={},min_blocks=1,stages={}", threads, stages));
    if (figures.tiling.threads != threads || figures.tiling.stages != stages) return {};
    return figures;
  } catch (const UsageError&) {
    return {};
  }
}

}  // namespace

Processor processor_of(const runtime::DeviceInfo& device) {
  return {device.shared_bytes_per_multiprocessor, device.threads_per_multiprocessor};
}

Processor processor_of(const std::string& arch) {
  const int shared = schedule::shared_limit(arch) + reserved_bytes;  // one block may have all but its own share of it
  const std::string base = arch.substr(0, arch.find_last_not_of('a') + 1);  // of sm_90a too
  const bool of_data_centres = base == "sm_80" || base == "sm_90" || base == "sm_100" || base == "sm_103";
  return {shared, of_data_centres ? 2048 : 1536};
}

int distance(const Candidate& a, const Candidate& b) {
  int steps = 0;
  for (size_t i = 0; i < a.at.size(); ++i) steps += std::abs(a.at[i] - b.at[i]);
  return steps;
}

std::string hopeless(const ScheduleFigures& figures, const Processor& processor) {
  const schedule::Tiling& tiling = figures.tiling;
  const int shared = figures.shared_bytes + reserved_bytes, blocks = std::max(1, tiling.min_blocks);
  if (blocks * shared > processor.shared_bytes) return "shared memory";
  if (blocks * tiling.threads > processor.threads) return "threads";
  if (blocks > figures.resident_blocks + 1) return "registers";
  if (tiling.stages == 0) return "";
  const int resident = std::min(
      {processor.shared_bytes / shared, processor.threads / tiling.threads, std::max(blocks, figures.resident_blocks)});
  const int64_t of_a_slot = int64_t{resident} * figures.slot_bytes;
  if (tiling.stages * of_a_slot < fewest_bytes_in_flight) return "too few bytes on their way";
  if ((tiling.stages - 1) * of_a_slot >= most_bytes_in_flight) return "more bytes on their way than can be made use of";
  return "";
}

std::vector<Candidate> candidates(Compilation& compilation, const std::string& arch, const Processor& processor) {
  const schedule::Tiling start = schedule_figures(compilation, arch, "default").tiling;
  const Space space = space_around(start, compilation.options().layout);
  std::vector<Candidate> all{candidate(space, start)};
  for (int threads : space.threads)
    for (int stages : space.stages) {
      std::optional<ScheduleFigures> figures = figures_of(compilation, arch, threads, stages);
      if (!figures) continue;
      for (int blocks : space.blocks) {
        figures->tiling.min_blocks = blocks;
        if (!hopeless(*figures, processor).empty()) continue;
        for (int tiles : space.tiles)
          for (int heads : space.heads) {
            figures->tiling.tiles_per_block = tiles;
            figures->tiling.heads_fastest = heads != 0;
            Candidate next = candidate(space, figures->tiling);
            if (next.schedule != all.front().schedule) all.push_back(std::move(next));
          }
      }
    }
  std::stable_sort(all.begin() + 1, all.end(), [&](const Candidate& a, const Candidate& b) {
    return distance(a, all.front()) < distance(b, all.front());
  });
  return all;
}

}  // namespace kdagen::tune
