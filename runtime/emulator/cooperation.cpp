// SPDX-License-Identifier: Apache-2.0
// Where the threads of a block meet: barriers and exchanges between lanes, and the ways to miss one another.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <map>

#include "runtime/emulator/block.h"

namespace kdagen::emulator {
namespace {

constexpr std::uint32_t all_lanes = 0xffffffffu;
constexpr std::uint64_t poison = ~std::uint64_t{0};  // what a lane that is not there hands over: NaN

const char* name_of(WarpOperation operation) {
  return operation == WarpOperation::lane_xor ? "lane_xor" : "warp barrier";
}

}  // namespace

void Block::report(FaultKind kind, std::string text, int about) {
  faults_.add({kind, std::move(text)}, about);
  if (faults_.full()) stop();
}

void Block::block_barrier(int line) {
  if (at_barrier_ == 0) barrier_line_ = line;
  if (line != barrier_line_)
    report(FaultKind::divergence,
           fmt::format("divergent barrier in block {}: thread {} waits at line {}, others at line {}", number_,
                       running_, line, barrier_line_),
           line);
  if (++at_barrier_ == live_) {
    release_block_barrier();
  } else {
    wait_as(State::at_block_barrier, line);
  }
}

void Block::release_block_barrier() {
  if (live_ != count_)
    report(FaultKind::divergence,
           fmt::format("divergent barrier in block {}: {} of {} threads wait at line {}, the others have returned",
                       number_, live_, count_, barrier_line_),
           -barrier_line_);
  at_barrier_ = 0;
  memory_.next_epoch();
  memory_.now.stamp.warp_epoch = 0;
  for (Warp& warp : warps_) warp.epoch = 0;
  for (unsigned thread = 0; thread < count_; ++thread)
    if (fibers_[thread].state == State::at_block_barrier) set_ready(thread);
}

std::uint64_t Block::warp_exchange(WarpOperation operation, std::uint64_t bits, int lane_mask, int line) {
  if (lane_mask < 0 || lane_mask > 31)
    report(FaultKind::divergence, fmt::format("lane_xor at line {}: mask {} is outside 0..31", line, lane_mask), line);
  Fiber& fiber = running_fiber();
  Warp& warp = running_warp();
  if (warp.arrived) {
    const unsigned other = running_ / 32 * 32 + std::countr_zero(warp.arrived);
    const Fiber& first = fibers_[other];
    if (first.line != line || first.operation != operation)
      report(FaultKind::divergence,
             fmt::format("divergent warp in block {}: thread {} is in {} at line {}, thread {} in {} at line {}",
                         number_, running_, name_of(operation), line, other, name_of(first.operation), first.line),
             line);
  }
  fiber.operation = operation;
  fiber.line = line;
  fiber.bits = bits;
  fiber.source_lane = running_lane() ^ (static_cast<unsigned>(lane_mask) % 32);
  warp.arrived |= 1u << running_lane();
  if ((warp.arrived | warp.exited | ~warp.existing) == all_lanes) {
    complete_warp_operation();
  } else {
    wait_as(State::in_warp_operation, line);
  }
  return fiber.bits;
}

void Block::complete_warp_operation() {
  Warp& warp = running_warp();
  const unsigned first_thread = running_ / 32 * 32;
  const Fiber& first = fibers_[first_thread + std::countr_zero(warp.arrived)];
  if (warp.arrived != all_lanes)
    report(FaultKind::divergence,
           fmt::format(
               "partial warp in block {}: {} at line {} is reached by lanes {:#010x} of warp {} only; the others {}",
               number_, name_of(first.operation), first.line, warp.arrived, running_ / 32,
               warp.existing == all_lanes ? "have returned" : "do not exist"),
           first.line);
  if (first.operation == WarpOperation::barrier) memory_.now.stamp.warp_epoch = ++warp.epoch;
  std::array<std::uint64_t, 32> brought;
  for (unsigned lane = 0; lane < 32; ++lane)
    brought[lane] = warp.arrived >> lane & 1 ? fibers_[first_thread + lane].bits : poison;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(warp.arrived >> lane & 1)) continue;
    Fiber& fiber = fibers_[first_thread + lane];
    fiber.bits = brought[fiber.source_lane];
    if (fiber.state == State::in_warp_operation) set_ready(first_thread + lane);
  }
  warp.arrived = 0;
}

// ---- Copies to shared memory ---------------------------------------------------------------------------------------

void Block::initialise_arrival(std::uintptr_t arrival, int line) { copies_.initialise(arrival, running_, line); }
void Block::publish_arrivals() { copies_.publish(running_); }

void Block::expect_bytes(std::uintptr_t arrival, unsigned bytes, Copies::Record record, int line) {
  copies_.expect(arrival, bytes, record, line);
  wake_waiting_for(arrival);
}

void Block::fetch_box(void* to, const TensorMap& map, const std::int64_t (&start)[4], std::uintptr_t arrival, int line,
                      const void* pc) {
  copies_.fetch(to, map, start, arrival, running_, line, pc);
  if (faults_.full()) stop();
  wake_waiting_for(arrival);
}

void Block::wait_for(std::uintptr_t arrival, unsigned parity, int line) {
  while (!copies_.over(arrival, parity, line)) {
    running_fiber().arrival = arrival;
    wait_as(State::waiting_for_copy, line);
  }
  if (faults_.full()) stop();
}

void Block::start_copy(void* to, const void* from, bool inside, int line, const void* pc) {
  copies_.start(to, from, inside, running_, line, pc);
  if (faults_.full()) stop();
}
void Block::end_of_copies() { copies_.end_request(running_); }
void Block::wait_for_copies(int later, const void* pc) {
  copies_.wait(running_, static_cast<std::size_t>(later), pc);
  if (faults_.full()) stop();
}

// They look again.
void Block::wake_waiting_for(std::uintptr_t arrival) {
  for (unsigned thread = 0; thread < count_; ++thread)
    if (fibers_[thread].state == State::waiting_for_copy && fibers_[thread].arrival == arrival) set_ready(thread);
}

void Block::thread_exits() {
  --live_;
  Warp& warp = running_warp();
  warp.exited |= 1u << running_lane();
  running_fiber().state = State::done;
  if (warp.arrived && (warp.arrived | warp.exited | ~warp.existing) == all_lanes) complete_warp_operation();
  if (live_ && at_barrier_ == live_) release_block_barrier();
}

void Block::report_deadlock() {
  struct Group {
    unsigned threads = 0, first = 0;
  };
  std::map<std::pair<std::string, int>, Group> groups;
  for (unsigned thread = count_; thread-- > 0;) {
    const Fiber& fiber = fibers_[thread];
    if (fiber.state == State::done) continue;
    std::string where = name_of(fiber.operation);
    if (fiber.state == State::at_block_barrier) where = "block barrier";
    if (fiber.state == State::waiting_for_copy) where = "wait for operands (" + copies_.state_of(fiber.arrival) + ")";
    Group& group = groups[{where, fiber.line}];
    ++group.threads;
    group.first = thread;
  }
  std::string text = fmt::format("deadlock in block {}:", number_);
  for (const auto& [where, group] : groups)
    text += fmt::format("{} {} threads from thread {} on wait in the {} at line {}", text.back() == ':' ? "" : ",",
                        group.threads, group.first, where.first, where.second);
  if (live_ != count_) text += fmt::format(", {} have returned", count_ - live_);
  faults_.add({FaultKind::deadlock, text});
}

}  // namespace kdagen::emulator
