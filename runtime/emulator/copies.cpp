// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace kdagen::emulator {

void Copies::begin_block() {
  counters_.clear();
  requests_.clear();
  in_flight_.clear();
}

void Copies::fail(int line, std::string text) {
  if (check_) faults_.add({FaultKind::copy, "staging: " + std::move(text)}, line);
}

Copies::Counter* Copies::find(std::uintptr_t arrival, const char* action, int line) {
  const auto found = counters_.find(arrival);
  if (found != counters_.end()) return &found->second;
  fail(line, fmt::format("{} at line {} on an arrival counter that was never initialised", action, line));
  return nullptr;
}

void Copies::initialise(std::uintptr_t arrival, unsigned thread, int line) {
  if (arrival % 8 != 0) fail(line, fmt::format("the arrival counter at line {} is not aligned to 8 bytes", line));
  if (check_) memory_.reserve(arrival, 8);
  if (!counters_.emplace(arrival, Counter(thread)).second)
    fail(line, fmt::format("an arrival counter is initialised twice, again at line {}", line));
}

void Copies::publish(unsigned thread) {
  for (auto& [arrival, counter] : counters_)
    if (counter.initialised_by == thread) counter.published = true;
}

void Copies::expect(std::uintptr_t arrival, unsigned bytes, Record record, int line) {
  Counter* const counter = find(arrival, "expect_bytes", line);
  if (!counter) return;
  if (counter->announced)
    fail(line, fmt::format("expect_bytes at line {} announces a phase before the one under way is over", line));
  counter->announced = true;
  counter->expected += bytes;
  counter->record = record;
}

std::vector<unsigned char> Copies::take(const TensorMap& map, const std::int64_t (&start)[4], const void* pc) {
  const std::uint64_t row_bytes = map.box[0] * map.element_bytes;
  std::vector<unsigned char> data(row_bytes * map.box[1]);
  for (std::uint64_t row = 0; row < map.box[1]; ++row) {
    const std::int64_t at[4] = {start[0], start[1] + static_cast<std::int64_t>(row), start[2], start[3]};
    bool inside = true;
    for (int i = 0; i < 4; ++i) inside = inside && at[i] >= 0 && static_cast<std::uint64_t>(at[i]) < map.extents[i];
    if (!inside) continue;  // arrives as 0
    const std::uintptr_t from = map.base + static_cast<std::uint64_t>(at[1]) * map.strides[0] +
                                static_cast<std::uint64_t>(at[2]) * map.strides[1] +
                                static_cast<std::uint64_t>(at[3]) * map.strides[2];
    if (check_ && memory_.access(from, row_bytes, false, pc) == Verdict::stop) return data;
    std::memcpy(data.data() + row * row_bytes, reinterpret_cast<const void*>(from), row_bytes);
  }
  return data;
}

void Copies::fetch(void* to, const TensorMap& map, const std::int64_t (&start)[4], std::uintptr_t arrival,
                   unsigned thread, int line, const void* pc) {
  Counter* const counter = find(arrival, "fetch_box", line);
  if (!counter) return;
  if (!counter->published || counter->initialised_by != thread)
    fail(line,
         fmt::format("fetch_box at line {}: no publish_arrivals of thread {} after the arrival counter was initialised",
                     line, thread));
  const auto begin = reinterpret_cast<std::uintptr_t>(to);
  if (begin % 128 != 0)
    fail(line, fmt::format("fetch_box at line {} fills a place {} bytes past a multiple of 128", line, begin % 128));
  Box box{begin, take(map, start, pc), line};
  const std::uintptr_t end = begin + box.data.size();
  if (busy(begin, end))
    fail(line, fmt::format("fetch_box at line {} fills a place to which another box is on its way", line));
  if (check_) {
    if (memory_.written_by_threads(begin, box.data.size()))
      fail(line, fmt::format("fetch_box at line {} fills a place that threads wrote; the copy engine may overtake them",
                             line));
    if (memory_.access(begin, box.data.size(), true, pc) == Verdict::stop) return;
    memory_.forget_writes(begin, box.data.size());
  }
  std::memset(to, 0xff, box.data.size());
  in_flight_.insert({begin, end});
  counter->asked += box.data.size();
  counter->boxes.push_back(std::move(box));
}

bool Copies::over(std::uintptr_t arrival, unsigned parity, int line) {
  Counter* const counter = find(arrival, "wait_for", line);
  if (!counter || counter->parity != parity % 2) return true;
  if (!counter->announced || counter->asked < counter->expected) return false;
  if (counter->asked > counter->expected)
    fail(line, fmt::format("the phase that the wait at line {} ends has {} bytes announced, but {} were asked for",
                           line, counter->expected, counter->asked));
  std::shuffle(counter->boxes.begin(), counter->boxes.end(), random_);
  for (const Box& box : counter->boxes) {
    std::memcpy(reinterpret_cast<void*>(box.to), box.data.data(), box.data.size());
    if (check_) memory_.arrived(box.to, box.data.size());
    in_flight_.erase({box.to, box.to + box.data.size()});
  }
  if (check_) memory_.arrived(counter->record.address, counter->record.bytes);
  Counter next(counter->initialised_by);
  next.published = counter->published;
  next.parity = 1 - counter->parity;
  *counter = std::move(next);
  return true;
}

bool Copies::busy(std::uintptr_t begin, std::uintptr_t end) const {
  const auto next = in_flight_.lower_bound({end, 0});
  return next != in_flight_.begin() && std::prev(next)->second > begin;
}

void Copies::start(void* to, const void* from, bool inside, unsigned thread, int line, const void* pc) {
  constexpr std::size_t bytes = 16;
  const auto begin = reinterpret_cast<std::uintptr_t>(to), source = reinterpret_cast<std::uintptr_t>(from);
  if (begin % bytes != 0 || source % bytes != 0)
    fail(line, fmt::format("start_copy at line {}: {} lies {} bytes past a multiple of 16", line,
                           begin % bytes != 0 ? "the place" : "the source",
                           begin % bytes != 0 ? begin % bytes : source % bytes));
  if (busy(begin, begin + bytes))
    fail(line, fmt::format("start_copy at line {} fills a place to which another copy is on its way", line));
  Box piece{begin, std::vector<unsigned char>(bytes), line};
  if (check_) {
    if (inside && memory_.access(source, bytes, false, pc) == Verdict::stop) return;
    if (memory_.access(begin, bytes, true, pc) == Verdict::stop) return;
    memory_.forget_writes(begin, bytes);
  }
  if (inside) std::memcpy(piece.data.data(), from, bytes);
  std::memset(to, 0xff, bytes);
  in_flight_.insert({begin, begin + bytes});
  requests_[thread].open.push_back(std::move(piece));
}

void Copies::end_request(unsigned thread) {
  Requests& requests = requests_[thread];
  requests.ended.push_back(std::exchange(requests.open, {}));
}

void Copies::wait(unsigned thread, std::size_t later, const void* pc) {
  Requests& requests = requests_[thread];
  for (; requests.ended.size() > later; requests.ended.pop_front()) {
    std::vector<Box>& pieces = requests.ended.front();
    std::shuffle(pieces.begin(), pieces.end(), random_);
    for (const Box& piece : pieces) {
      in_flight_.erase({piece.to, piece.to + piece.data.size()});
      if (check_ && memory_.access(piece.to, piece.data.size(), true, pc) == Verdict::stop) return;
      std::memcpy(reinterpret_cast<void*>(piece.to), piece.data.data(), piece.data.size());
    }
  }
}

std::string Copies::state_of(std::uintptr_t arrival) const {
  const auto found = counters_.find(arrival);
  if (found == counters_.end()) return "its counter was never initialised";
  const Counter& counter = found->second;
  if (!counter.announced) return fmt::format("phase {} was never announced", counter.parity);
  return fmt::format("{} of the {} bytes announced were asked for", counter.asked, counter.expected);
}

}  // namespace kdagen::emulator
