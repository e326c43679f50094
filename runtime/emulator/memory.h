// SPDX-License-Identifier: Apache-2.0
// The memory a kernel may touch and the judgement of each access.
#pragma once
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/emulator.h"
#include "runtime/emulator/faults.h"
#include "runtime/emulator/shadow.h"

namespace kdagen::emulator {

/// A buffer or a shared array.
struct Region {
  std::uintptr_t begin, end;
  std::string name;
  bool shared, initialised, writable;
  Shadow shadow;
};

enum class Verdict { go_on, stop };

class Memory {
 public:
  Memory(const Module& module, const std::vector<Buffer>& buffers, std::size_t dynamic_shared_bytes, FaultLog& faults);

  /// Judges an access of the thread `now` from the code at `pc`; stop: it must not be carried out.
  Verdict access(std::uintptr_t address, std::size_t size, bool write, const void* pc);

  // Of shared memory that the copy engine fills (copies.h).
  /// The bytes of an arrival counter, from now on to the end of the block: no thread may touch them but through it.
  void reserve(std::uintptr_t address, std::size_t size);
  /// Whether a thread of this block wrote one of these bytes.
  bool written_by_threads(std::uintptr_t address, std::size_t size);
  /// They count as never written from now on ...
  void forget_writes(std::uintptr_t address, std::size_t size);
  /// ... until they have arrived: written before anything that this epoch does.
  void arrived(std::uintptr_t address, std::size_t size);

  /// Reports an access at `excess` bytes past a multiple of the required `alignment`.
  void misaligned(std::size_t excess, std::size_t alignment, const void* pc);

  /// The array of a KD_SHARED declaration, the same address for all threads of the run.
  void* shared_array(const void* declaration, const char* name, std::size_t bytes);
  void* dynamic_shared() { return dynamic_shared_; }

  /// A block starts: its shared memory is NaN, and earlier acts are another block's. `block` is its linear number.
  void begin_block(std::uint64_t block);
  /// All acts so far of this block are ordered before those to come.
  void next_epoch() { ++now.stamp.epoch; }

  Now now;

 private:
  Region& add_region(void* data, std::size_t bytes, std::string name, bool shared, bool initialised, bool writable);
  void* add_shared(std::size_t bytes, std::string name);
  Region* find(std::uintptr_t address);
  const Region* nearest(std::uintptr_t address) const;
  template <class Action>
  void for_each_cell(std::uintptr_t address, std::size_t size, Action action);
  Verdict outside(std::uintptr_t address, std::size_t size, bool write, const void* pc);
  void read(Region& region, Cell& cell, std::uint32_t place);
  void write(Region& region, Cell& cell, std::uint32_t place);
  bool touches_reserved(std::uintptr_t address, std::size_t size) const;
  void report_race(const Region& region, const Cell& cell, bool write, bool earlier_write, std::uint32_t place);
  std::uint64_t block_of(const Stamp& stamp) const;
  const void* pc_of(std::uint32_t place) const { return reinterpret_cast<const void*>(module_.image().first + place); }
  std::string actor() const;

  const Module& module_;
  FaultLog& faults_;
  std::deque<Region> regions_;
  std::vector<Region*> sorted_;           // by address
  std::array<Region*, 256> recent_ = {};  // by page: the region last found there
  std::vector<std::shared_ptr<void>> shared_storage_;
  std::unordered_map<const void*, void*> shared_arrays_;
  void* dynamic_shared_ = nullptr;
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> reserved_;  // [begin, end)
  struct BlockStart {
    std::uint32_t epoch;
    std::uint64_t block;
  };
  std::vector<BlockStart> block_starts_;
};

}  // namespace kdagen::emulator
