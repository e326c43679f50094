// SPDX-License-Identifier: Apache-2.0
// Copies on their way to shared memory, as <kdagen/staging.cuh> asks for them: boxes of tensors by the copy engine, 16
// bytes by a thread. They are taken from global memory when they are asked for but arrive only when a wait completes
// their phase or request, in any order among it; until then their place holds poison and counts as never written. A
// thread's own copies are its writes, made at its wait.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "runtime/emulator/emulator.h"
#include "runtime/emulator/faults.h"
#include "runtime/emulator/memory.h"

namespace kdagen::emulator {

class Copies {
 public:
  /// What the announcing thread wrote for those who wait.
  struct Record {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
  };

  Copies(Memory& memory, FaultLog& faults, bool check, unsigned seed)
      : memory_(memory), faults_(faults), check_(check), random_(seed) {}

  void begin_block();
  // Called by the running thread, at this line of the text.
  void initialise(std::uintptr_t arrival, unsigned thread, int line);
  void publish(unsigned thread);
  void expect(std::uintptr_t arrival, unsigned bytes, Record record, int line);
  void fetch(void* to, const TensorMap& map, const std::int64_t (&start)[4], std::uintptr_t arrival, unsigned thread,
             int line, const void* pc);
  /// Whether the phase of this parity is over; lets its boxes arrive if it can be.
  bool over(std::uintptr_t arrival, unsigned parity, int line);
  // By the threads.
  void start(void* to, const void* from, bool inside, unsigned thread, int line, const void* pc);
  void end_request(unsigned thread);
  void wait(unsigned thread, std::size_t later, const void* pc);
  /// "1024 of 2048 bytes were asked for", of the phase that a deadlocked thread waits for.
  std::string state_of(std::uintptr_t arrival) const;

 private:
  struct Box {
    std::uintptr_t to;
    std::vector<unsigned char> data;
    int line;
  };
  struct Counter {
    explicit Counter(unsigned thread) : initialised_by(thread) {}
    unsigned initialised_by = 0;
    bool published = false, announced = false;
    unsigned parity = 0;  // of the phase under way
    std::uint64_t expected = 0, asked = 0;
    Record record;
    std::vector<Box> boxes;
  };
  struct Requests {  // of one thread
    std::vector<Box> open;
    std::deque<std::vector<Box>> ended;
  };
  /// Whether a copy to one of these bytes is on its way.
  bool busy(std::uintptr_t begin, std::uintptr_t end) const;
  Counter* find(std::uintptr_t arrival, const char* action, int line);
  void fail(int line, std::string text);
  std::vector<unsigned char> take(const TensorMap& map, const std::int64_t (&start)[4], const void* pc);

  Memory& memory_;
  FaultLog& faults_;
  bool check_;
  std::minstd_rand random_;
  std::map<std::uintptr_t, Counter> counters_;
  std::map<unsigned, Requests> requests_;                          // by thread
  std::set<std::pair<std::uintptr_t, std::uintptr_t>> in_flight_;  // [begin, end), apart from each other
};

}  // namespace kdagen::emulator
