// SPDX-License-Identifier: Apache-2.0
// The record of who touched a place in memory last, and the rules by which two touches conflict.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace kdagen::emulator {

/// A moment in the run and the thread that acted. Epochs count block barriers over the whole run, block starts
/// included, so an epoch also tells the block; warp epochs count warp barriers since the last block barrier.
struct Stamp {
  std::uint64_t epoch : 32 = 0;  // 0: never
  std::uint64_t thread : 10 = 0;
  std::uint64_t warp_epoch : 18 = 0;
  // Of reads only: besides `thread`, in the same epoch ...
  std::uint64_t other_lanes : 1 = 0;   // ... other lanes of its warp, in the same warp epoch
  std::uint64_t other_warps : 1 = 0;   // ... threads of other warps
  std::uint64_t other_blocks : 1 = 0;  // ... and, at any time before, other blocks
  // Of writes only:
  std::uint64_t by_copy : 1 = 0;  // the copy engine wrote; ordered before every act of a thread that may see it

  std::uint64_t warp() const { return thread / 32; }
  bool same_moment(const Stamp& other) const {
    return epoch == other.epoch && thread == other.thread && warp_epoch == other.warp_epoch;
  }
  bool operator==(const Stamp&) const = default;
};
static_assert(sizeof(Stamp) == 8);

/// What is known of one granule of memory. Places in the code are offsets in the module.
struct Cell {
  Stamp write, read;
  std::uint32_t write_place, read_place;
};

/// The acting thread now, with what separates it from earlier acts.
struct Now {
  Stamp stamp;
  std::uint32_t first_epoch_of_block = 1;

  bool in_this_block(const Stamp& earlier) const { return earlier.epoch >= first_epoch_of_block; }

  /// Whether nothing orders `earlier`, an act of the same block, before now.
  bool unordered(const Stamp& earlier) const {
    if (earlier.epoch != stamp.epoch || earlier.by_copy) return false;
    if (earlier.other_warps) return true;
    if (earlier.thread == stamp.thread && !earlier.other_lanes) return false;
    return earlier.warp() != stamp.warp() || earlier.warp_epoch == stamp.warp_epoch;
  }

  /// The record of the readers after one more read now.
  Stamp joined_to_readers(const Stamp& readers) const {
    Stamp joined = stamp;
    joined.other_blocks = readers.other_blocks || (readers.epoch && !in_this_block(readers));
    if (readers.epoch != stamp.epoch) return joined;
    joined.other_warps = readers.other_warps || readers.warp() != stamp.warp();
    // Lanes that read before the last warp barrier need no mention: whoever conflicts with them but not with this
    // read is a lane of this warp, and ordered after them.
    joined.other_lanes =
        readers.warp_epoch == stamp.warp_epoch && (readers.other_lanes || readers.thread != stamp.thread);
    return joined;
  }
};

/// The cells of one region. A granule is as large as the accesses allow, so that most accesses meet one cell: it
/// starts at the first access's size and splits when a smaller or unaligned access comes.
class Shadow {
 public:
  static constexpr unsigned largest_shift = 4;

  explicit Shadow(std::size_t bytes) : bytes_(bytes) {}

  /// The first of the cells of [offset, offset + size); `count` receives their number.
  Cell* cells(std::size_t offset, std::size_t size, std::size_t& count) {
    if (!cells_ || ((offset | size) & granule_mask())) split_for(offset | size);
    count = size >> shift_;
    return cells_.get() + (offset >> shift_);
  }

  /// The first byte of a cell that `cells` returned, as an offset in the region.
  std::size_t offset_of(const Cell* cell) const { return static_cast<std::size_t>(cell - cells_.get()) << shift_; }

 private:
  std::size_t granule_mask() const { return (std::size_t{1} << shift_) - 1; }
  void split_for(std::size_t offset_or_size);

  struct Free {
    void operator()(Cell* cells) const { std::free(cells); }
  };
  std::size_t bytes_;
  unsigned shift_ = largest_shift;
  std::unique_ptr<Cell[], Free> cells_;  // from calloc: large shadows cost memory only where kernels go
};

}  // namespace kdagen::emulator
