// SPDX-License-Identifier: Apache-2.0
// The threads of one block as fibers on one host thread, switching only where they wait for one another.
#pragma once
#include <boost/context/detail/fcontext.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "runtime/emulator/copies.h"
#include "runtime/emulator/emulator.h"
#include "runtime/emulator/faults.h"
#include "runtime/emulator/memory.h"
#include "runtime/emulator/stacks.h"

namespace kdagen::emulator {

using KernelFunction = void (*)(const void* argument_words);

/// One mapping of n stacks, each with a guard page below it.
class StackPool {
 public:
  static constexpr std::size_t stack_bytes = 128 << 10;

  explicit StackPool(unsigned count);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  /// Fibers never return from their first function: what they left on their stacks is no frame any more.
  void forget_frames();
  std::uintptr_t lowest(unsigned index) const { return base_ + index * stack_bytes; }
  Stack stack(unsigned index) const { return {reinterpret_cast<void*>(lowest(index)), stack_bytes}; }

 private:
  std::uintptr_t base_;
  std::size_t bytes_;
};

/// What the 32 lanes of a warp can wait for together.
enum class WarpOperation : std::uint8_t { lane_xor, barrier };

class Block {
 public:
  static constexpr unsigned max_threads = 1024;

  /// `words` and everything else must outlive the block. `seed` 0: natural order.
  Block(KernelFunction kernel, const void* words, Dim3 dim, unsigned seed, bool check, Memory& memory,
        FaultLog& faults);

  /// Runs all threads of block `index`, whose linear number is `number`; false: the run must stop.
  bool run(Dim3 index, std::uint64_t number);

  // Called by the running thread.
  Dim3 thread_index() const { return fibers_[running_].index; }
  Dim3 block_index() const { return index_; }
  Dim3 dim() const { return dim_; }
  void block_barrier(int line);
  /// The bits that the lane (own lane ^ lane_mask) brings; a barrier is an exchange whose result nobody looks at.
  std::uint64_t warp_exchange(WarpOperation operation, std::uint64_t bits, int lane_mask, int line);
  // Copies to shared memory; the counter and the map are where the text says.
  void initialise_arrival(std::uintptr_t arrival, int line);
  void publish_arrivals();
  void expect_bytes(std::uintptr_t arrival, unsigned bytes, Copies::Record record, int line);
  void fetch_box(void* to, const TensorMap& map, const std::int64_t (&start)[4], std::uintptr_t arrival, int line,
                 const void* pc);
  void wait_for(std::uintptr_t arrival, unsigned parity, int line);
  void start_copy(void* to, const void* from, bool inside, int line, const void* pc);
  void end_of_copies();
  void wait_for_copies(int later, const void* pc);
  bool on_own_stack(std::uintptr_t address) const { return address - running_stack_ < StackPool::stack_bytes; }
  /// Leaves the run for good; the fibers stay where they stand.
  [[noreturn]] void stop();
  /// "thread 3 of block 7"
  std::string running_thread() const;

 private:
  enum class State : std::uint8_t { ready, at_block_barrier, in_warp_operation, waiting_for_copy, done };
  struct Fiber {
    Dim3 index;
    boost::context::detail::fcontext_t context = nullptr;
    State state = State::ready;
    WarpOperation operation{};
    int line = 0;  // of what it waits for
    unsigned source_lane = 0;
    std::uintptr_t arrival = 0;  // the counter it waits for
    std::uint64_t bits = 0;
  };
  struct Warp {
    std::uint32_t existing = 0;  // lanes that the block has
    std::uint32_t ready = 0;     // could run, but do not
    std::uint32_t arrived = 0;   // at the warp operation that is under way
    std::uint32_t exited = 0;
    std::uint32_t epoch = 0;  // warp barriers since the last block barrier
  };
  /// Travels with each switch: where the context that was left shall be kept.
  struct Handover {
    Block* block;
    boost::context::detail::fcontext_t* left;
  };

  enum class Leaving { for_now, for_good };

  // Switching (block.cpp)
  static void fiber_main(boost::context::detail::transfer_t from);
  void switch_to(boost::context::detail::fcontext_t target, const Stack& stack,
                 boost::context::detail::fcontext_t& left, Leaving leaving);
  void set_ready(unsigned thread);
  unsigned pick_ready();
  void switch_to_ready(boost::context::detail::fcontext_t& left, Leaving leaving);
  void wait_as(State state, int line);

  // Meeting (cooperation.cpp)
  void thread_exits();
  void release_block_barrier();
  void complete_warp_operation();
  void wake_waiting_for(std::uintptr_t arrival);
  void report(FaultKind kind, std::string text, int about);
  void report_deadlock();

  Fiber& running_fiber() { return fibers_[running_]; }
  Warp& running_warp() { return warps_[running_ / 32]; }
  unsigned running_lane() const { return running_ % 32; }

  KernelFunction kernel_;
  const void* words_;
  Dim3 dim_, index_;
  std::uint64_t number_ = 0;
  bool natural_order_;
  std::minstd_rand random_;
  Memory& memory_;
  FaultLog& faults_;
  Copies copies_;
  unsigned count_;
  StackPool stacks_;
  std::vector<Fiber> fibers_;
  Handover handover_{};  // of the switch that is under way
  std::vector<Warp> warps_;
  std::uint32_t ready_warps_ = 0;  // warps with a ready lane
  unsigned live_ = 0, at_barrier_ = 0;
  int barrier_line_ = 0;  // where the first of those at the barrier waits
  unsigned running_ = 0;
  std::uintptr_t running_stack_ = 0;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  Stack scheduler_stack_;
  bool stopped_ = false;
};

}  // namespace kdagen::emulator
