// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kdagen/error.h"

namespace kdagen::emulator {
namespace {

constexpr unsigned char poison = 0xff;  // NaN in bf16, fp16, f32 and f64

const char* verb(bool write) { return write ? "writes" : "reads"; }
const char* past_verb(bool write) { return write ? "wrote" : "read"; }

std::string described(const Region& region) { return region.shared ? "shared array " + region.name : region.name; }

}  // namespace

Memory::Memory(const Module& module, const std::vector<Buffer>& buffers, std::size_t dynamic_shared_bytes,
               FaultLog& faults)
    : module_(module), faults_(faults) {
  for (const Buffer& buffer : buffers)
    if (buffer.bytes) add_region(buffer.data, buffer.bytes, buffer.name, false, buffer.initialised, buffer.writable);
  if (dynamic_shared_bytes) dynamic_shared_ = add_shared(dynamic_shared_bytes, "(dynamic)");
}

Region& Memory::add_region(void* data, std::size_t bytes, std::string name, bool shared, bool initialised,
                           bool writable) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  Region& region = regions_.emplace_back(
      Region{begin, begin + bytes, std::move(name), shared, initialised, writable, Shadow(bytes)});
  const auto after = std::upper_bound(sorted_.begin(), sorted_.end(), begin,
                                      [](std::uintptr_t address, const Region* r) { return address < r->begin; });
  const Region* overlapped = nullptr;
  if (after != sorted_.end() && (*after)->begin < region.end) overlapped = *after;
  if (after != sorted_.begin() && (*std::prev(after))->end > begin) overlapped = *std::prev(after);
  if (overlapped)
    throw UsageError(fmt::format("emulator: buffers {} and {} overlap; register the allocation once, not its views",
                                 overlapped->name, region.name));
  sorted_.insert(after, &region);
  return region;
}

void* Memory::add_shared(std::size_t bytes, std::string name) {
  void* const data = shared_storage_.emplace_back(allocate_guarded(bytes)).get();
  std::memset(data, poison, bytes);
  add_region(data, bytes, std::move(name), true, false, true);
  return data;
}

void* Memory::shared_array(const void* declaration, const char* name, std::size_t bytes) {
  void*& data = shared_arrays_[declaration];
  if (!data) data = add_shared(bytes, name);
  return data;
}

void Memory::begin_block(std::uint64_t block) {
  next_epoch();
  now.first_epoch_of_block = now.stamp.epoch;
  block_starts_.push_back({now.first_epoch_of_block, block});
  reserved_.clear();
  for (const Region& region : regions_)
    if (region.shared) std::memset(reinterpret_cast<void*>(region.begin), poison, region.end - region.begin);
}

std::uint64_t Memory::block_of(const Stamp& stamp) const {
  const auto after = std::upper_bound(block_starts_.begin(), block_starts_.end(), stamp.epoch,
                                      [](std::uint64_t epoch, const BlockStart& start) { return epoch < start.epoch; });
  return std::prev(after)->block;
}

std::string Memory::actor() const {
  return fmt::format("thread {} of block {}", std::uint64_t{now.stamp.thread}, block_of(now.stamp));
}

/// The last region that begins at or before the address, which may lie past its end.
Region* Memory::find(std::uintptr_t address) {
  Region*& recent = recent_[(address >> 12) % recent_.size()];
  if (recent && address >= recent->begin && address < recent->end) return recent;
  const auto after = std::upper_bound(sorted_.begin(), sorted_.end(), address,
                                      [](std::uintptr_t a, const Region* region) { return a < region->begin; });
  if (after == sorted_.begin()) return nullptr;
  return recent = *std::prev(after);
}

Verdict Memory::access(std::uintptr_t address, std::size_t size, bool write_access, const void* pc) {
  Region* const region = find(address);
  if (!region || address + size > region->end) return outside(address, size, write_access, pc);
  if (write_access && !region->writable) {
    faults_.add({FaultKind::read_only,
                 fmt::format("read-only: {} writes {}, byte {},", actor(), region->name, address - region->begin), pc});
    return Verdict::stop;
  }
  if (region->shared && !reserved_.empty() && touches_reserved(address, size)) {
    faults_.add({FaultKind::copy,
                 fmt::format("staging: {} {} {}, byte {},", actor(), verb(write_access), described(*region),
                             address - region->begin),
                 pc, ", where an arrival counter is"});
    return Verdict::stop;
  }
  const auto place = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pc) - module_.image().first);
  std::size_t count;
  Cell* const cells = region->shadow.cells(address - region->begin, size, count);
  if (write_access) {
    for (std::size_t i = 0; i < count; ++i)
      if (cells[i].write != now.stamp) write(*region, cells[i], place);
  } else {
    // A cell this thread has read at this very moment needs no second look: a write since then was judged itself.
    for (std::size_t i = 0; i < count; ++i)
      if (!cells[i].read.same_moment(now.stamp)) read(*region, cells[i], place);
  }
  return faults_.full() ? Verdict::stop : Verdict::go_on;
}

template <class Action>
void Memory::for_each_cell(std::uintptr_t address, std::size_t size, Action action) {
  Region* const region = find(address);
  if (!region || address + size > region->end) return;
  std::size_t count;
  Cell* const cells = region->shadow.cells(address - region->begin, size, count);
  std::for_each(cells, cells + count, action);
}

bool Memory::written_by_threads(std::uintptr_t address, std::size_t size) {
  bool any = false;
  for_each_cell(address, size, [&](const Cell& cell) {
    any = any || (cell.write.epoch && now.in_this_block(cell.write) && !cell.write.by_copy);
  });
  return any;
}

void Memory::forget_writes(std::uintptr_t address, std::size_t size) {
  for_each_cell(address, size, [](Cell& cell) { cell.write = {}; });
}

void Memory::arrived(std::uintptr_t address, std::size_t size) {
  for_each_cell(address, size, [&](Cell& cell) {
    cell.write = now.stamp;
    cell.write.by_copy = 1;
  });
}

void Memory::reserve(std::uintptr_t address, std::size_t size) { reserved_.push_back({address, address + size}); }

bool Memory::touches_reserved(std::uintptr_t address, std::size_t size) const {
  return std::any_of(reserved_.begin(), reserved_.end(),
                     [&](const auto& range) { return address < range.second && address + size > range.first; });
}

void Memory::misaligned(std::size_t excess, std::size_t alignment, const void* pc) {
  faults_.add({FaultKind::misaligned, fmt::format("misaligned access: {}", actor()), pc,
               fmt::format(": the address is {} bytes past a multiple of {}", excess, alignment)});
}

const Region* Memory::nearest(std::uintptr_t address) const {
  const auto distance = [&](const Region* region) {
    return address < region->begin ? region->begin - address : address < region->end ? 0 : address - region->end;
  };
  const auto found = std::min_element(sorted_.begin(), sorted_.end(),
                                      [&](const Region* a, const Region* b) { return distance(a) < distance(b); });
  constexpr std::uintptr_t near = std::uintptr_t{1} << 40;
  return found != sorted_.end() && distance(*found) < near ? *found : nullptr;
}

Verdict Memory::outside(std::uintptr_t address, std::size_t size, bool write_access, const void* pc) {
  const auto [image_begin, image_end] = module_.image();
  if (address >= image_begin && address + size <= image_end && !write_access) return Verdict::go_on;  // constants
  std::string where = "no buffer is near";
  if (address < 4096) {
    where = "a null pointer";
  } else if (const Region* const region = nearest(address)) {
    where = fmt::format("byte {} of {}, which has {}", static_cast<std::int64_t>(address - region->begin),
                        described(*region), region->end - region->begin);
  }
  faults_.add({FaultKind::out_of_bounds,
               fmt::format("out of bounds: {} {} {} bytes", actor(), verb(write_access), size), pc, ": " + where});
  return Verdict::stop;
}

void Memory::read(Region& region, Cell& cell, std::uint32_t place) {
  const bool forgotten = region.shared && !now.in_this_block(cell.write);
  if (cell.write.epoch == 0 || forgotten) {
    if (!region.initialised && !faults_.seen(FaultKind::uninitialised_read, pc_of(place), nullptr))
      faults_.add({FaultKind::uninitialised_read,
                   fmt::format("uninitialised read: {} reads {}, byte {},", actor(), described(region),
                               region.shadow.offset_of(&cell)),
                   pc_of(place), ", which no thread has written"});
  } else if (!now.in_this_block(cell.write) || now.unordered(cell.write)) {
    report_race(region, cell, false, true, place);
  }
  cell.read = now.joined_to_readers(cell.read);
  cell.read_place = place;
}

void Memory::write(Region& region, Cell& cell, std::uint32_t place) {
  const bool other_block_wrote = !region.shared && cell.write.epoch && !now.in_this_block(cell.write);
  const bool other_block_read =
      !region.shared && cell.read.epoch && (cell.read.other_blocks || !now.in_this_block(cell.read));
  if (other_block_wrote || now.unordered(cell.write)) {
    report_race(region, cell, true, true, place);
  } else if (other_block_read || now.unordered(cell.read)) {
    report_race(region, cell, true, false, place);
  }
  cell.write = now.stamp;
  cell.write_place = place;
}

void Memory::report_race(const Region& region, const Cell& cell, bool write_access, bool earlier_write,
                         std::uint32_t place) {
  const Stamp& earlier = earlier_write ? cell.write : cell.read;
  const void* const pc = pc_of(place);
  const void* const earlier_pc = pc_of(earlier_write ? cell.write_place : cell.read_place);
  const bool same_block = now.in_this_block(earlier) && (now.unordered(earlier) || !earlier.other_blocks);
  const FaultKind kind = same_block ? FaultKind::race : FaultKind::race_between_blocks;
  if (faults_.seen(kind, pc, earlier_pc)) return;
  const std::string act =
      fmt::format("{} {} {}, byte {},", actor(), verb(write_access), described(region), region.shadow.offset_of(&cell));
  if (same_block) {
    const bool several = earlier.other_lanes || earlier.other_warps;
    const std::string who = several ? "several threads" : fmt::format("thread {}", std::uint64_t{earlier.thread});
    faults_.add({kind, "race: " + act, pc, fmt::format("; {} {} it", who, past_verb(earlier_write)), earlier_pc,
                 " with no barrier in between"});
  } else {
    const bool unknown = now.in_this_block(earlier);  // a later read of this block took the record over
    const std::string who = unknown ? "another block" : fmt::format("block {}", block_of(earlier));
    faults_.add({kind, "race between blocks: " + act, pc, fmt::format("; {} {} it", who, past_verb(earlier_write)),
                 unknown ? nullptr : earlier_pc, ""});
  }
}

}  // namespace kdagen::emulator
