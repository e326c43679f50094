// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/block.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <bit>
#include <new>

namespace kdagen::emulator {
// Boost's fiber class unwinds the stack of a fiber that never finishes by an exception; after a stop, kernels are left
// where they stand instead, so the layer below it is used.
namespace context = boost::context::detail;

namespace {

constexpr std::size_t guard_bytes = 4096;

/// The position of the first set bit at or after `from`, cyclically. `bits` is not 0.
unsigned next_bit(std::uint32_t bits, unsigned from) {
  return (from + std::countr_zero(std::rotr(bits, static_cast<int>(from)))) % 32;
}

}  // namespace

StackPool::StackPool(unsigned count) : bytes_(count * stack_bytes) {
  void* const mapping =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  base_ = reinterpret_cast<std::uintptr_t>(mapping);
  for (unsigned i = 0; i < count; ++i) mprotect(reinterpret_cast<void*>(lowest(i)), guard_bytes, PROT_NONE);
}

StackPool::~StackPool() {
  forget_frames();
  munmap(reinterpret_cast<void*>(base_), bytes_);
}

void StackPool::forget_frames() { emulator::forget_frames(reinterpret_cast<void*>(base_), bytes_); }

Block::Block(KernelFunction kernel, const void* words, Dim3 dim, unsigned seed, bool check, Memory& memory,
             FaultLog& faults)
    : kernel_(kernel),
      words_(words),
      dim_(dim),
      natural_order_(seed == 0),
      random_(seed),
      memory_(memory),
      faults_(faults),
      copies_(memory, faults, check, seed),
      count_(dim.x * dim.y * dim.z),
      stacks_(count_),
      fibers_(count_),
      warps_((count_ + 31) / 32) {}

std::string Block::running_thread() const { return fmt::format("thread {} of block {}", running_, number_); }

bool Block::run(Dim3 index, std::uint64_t number) {
  index_ = index;
  number_ = number;
  memory_.begin_block(number);
  copies_.begin_block();
  stacks_.forget_frames();
  live_ = count_;
  at_barrier_ = 0;
  for (Warp& warp : warps_) warp = {};
  for (unsigned thread = 0; thread < count_; ++thread) {
    // Stacks a power of two apart would all compete for the same cache sets.
    const std::uintptr_t top = stacks_.lowest(thread) + StackPool::stack_bytes - thread % 16 * std::size_t{256};
    const std::size_t size = top - stacks_.lowest(thread) - guard_bytes;
    fibers_[thread] = {.index = {thread % dim_.x, thread / dim_.x % dim_.y, thread / (dim_.x * dim_.y)}};
    fibers_[thread].context = context::make_fcontext(reinterpret_cast<void*>(top), size, fiber_main);
    warps_[thread / 32].existing |= 1u << thread % 32;
    set_ready(thread);
  }
  running_ = count_ - 1;  // the natural successor is thread 0
  switch_to_ready(scheduler_, Leaving::for_now);
  if (!stopped_ && live_) report_deadlock();
  return !stopped_ && !live_ && !faults_.full();
}

KDAGEN_LEAVES_A_STACK void Block::switch_to(context::fcontext_t target, const Stack& stack, context::fcontext_t& left,
                                            Leaving leaving) {
  handover_ = {this, &left};
  void* frames = nullptr;
  leave_for(stack, leaving == Leaving::for_good ? nullptr : &frames);
  const context::transfer_t from = context::jump_fcontext(target, &handover_);
  arrive(frames);
  *static_cast<Handover*>(from.data)->left = from.fctx;
}

void Block::fiber_main(context::transfer_t from) {
  const Stack left = arrive(nullptr);
  const Handover handover = *static_cast<Handover*>(from.data);
  *handover.left = from.fctx;
  Block& block = *handover.block;
  if (handover.left == &block.scheduler_) block.scheduler_stack_ = left;
  block.kernel_(block.words_);
  block.thread_exits();
  block.wait_as(State::done, 0);
  __builtin_unreachable();
}

void Block::set_ready(unsigned thread) {
  fibers_[thread].state = State::ready;
  warps_[thread / 32].ready |= 1u << thread % 32;
  ready_warps_ |= 1u << thread / 32;
}

unsigned Block::pick_ready() {
  if (!natural_order_) {
    const unsigned warp = next_bit(ready_warps_, random_() % 32);
    return warp * 32 + next_bit(warps_[warp].ready, random_() % 32);
  }
  // Lanes of the own warp first: they are most likely to complete what this one waits for.
  const unsigned own = running_ / 32;
  if (warps_[own].ready) return own * 32 + next_bit(warps_[own].ready, running_ % 32);
  const unsigned warp = next_bit(ready_warps_, own);
  return warp * 32 + next_bit(warps_[warp].ready, 0);
}

void Block::switch_to_ready(context::fcontext_t& left, Leaving leaving) {
  running_ = pick_ready();
  running_stack_ = stacks_.lowest(running_);
  Warp& warp = running_warp();
  warp.ready &= ~(1u << running_lane());
  if (!warp.ready) ready_warps_ &= ~(1u << running_ / 32);
  memory_.now.stamp.thread = running_;
  memory_.now.stamp.warp_epoch = warp.epoch;
  switch_to(running_fiber().context, stacks_.stack(running_), left, leaving);
}

void Block::wait_as(State state, int line) {
  Fiber& fiber = running_fiber();
  fiber.state = state;
  fiber.line = line;
  const Leaving leaving = state == State::done ? Leaving::for_good : Leaving::for_now;
  if (ready_warps_) {
    switch_to_ready(fiber.context, leaving);
  } else {
    switch_to(scheduler_, scheduler_stack_, fiber.context, leaving);
  }
}

void Block::stop() {
  stopped_ = true;
  switch_to(scheduler_, scheduler_stack_, running_fiber().context, Leaving::for_good);
  __builtin_unreachable();
}

}  // namespace kdagen::emulator
