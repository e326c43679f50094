// SPDX-License-Identifier: Apache-2.0
// The functions that host-compiled kernels call by name: those of <kdagen/emulator.h>, and those that the compiler's
// -fsanitize=thread inserts at each memory access, under the names that the linker gives them (--wrap, module.cpp).
// Kernels are not linked with the sanitizer's own library; its calls end here. Programs export these names by linking
// kdagen_emulator.
#include "runtime/emulator/machine.h"

#define KDAGEN_EMULATOR_HOOKS_ONLY
#include "kdagen/emulator.h"

namespace kdagen::emulator {
namespace {

// Read at every memory access of a kernel. Fibers stay on the host thread of their run.
__attribute__((tls_model("initial-exec"))) thread_local Machine* machine = nullptr;

uint3 as_uint3(Dim3 dim) { return {dim.x, dim.y, dim.z}; }

inline void touch(const void* address, std::size_t size, bool write, const void* pc) {
  if (!machine || !machine->check) return;
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  if (machine->block.on_own_stack(first)) return;
  if (machine->memory.access(first, size, write, pc) == Verdict::stop) machine->block.stop();
}

}  // namespace

Machine*& current_machine() { return machine; }

}  // namespace kdagen::emulator

using namespace kdagen::emulator;

extern "C" {

uint3 kdagen_emulator_thread_index() { return as_uint3(current_machine()->block.thread_index()); }
uint3 kdagen_emulator_block_index() { return as_uint3(current_machine()->block.block_index()); }
uint3 kdagen_emulator_block_dim() { return as_uint3(current_machine()->block.dim()); }
uint3 kdagen_emulator_grid_dim() { return as_uint3(current_machine()->grid); }

void* kdagen_emulator_shared_array(const kdagen_emulator_array* array) {
  return current_machine()->memory.shared_array(array, array->name, array->bytes);
}

void* kdagen_emulator_dynamic_shared() { return current_machine()->memory.dynamic_shared(); }

void kdagen_emulator_require_alignment(const void* address, unsigned bytes) {
  const std::uintptr_t excess = reinterpret_cast<std::uintptr_t>(address) % bytes;
  if (excess == 0 || !current_machine()->check) return;
  current_machine()->memory.misaligned(excess, bytes, __builtin_return_address(0));
  current_machine()->block.stop();
}

void kdagen_emulator_block_barrier(int line) { current_machine()->block.block_barrier(line); }

void kdagen_emulator_warp_barrier(int line) {
  current_machine()->block.warp_exchange(WarpOperation::barrier, 0, 0, line);
}

unsigned long long kdagen_emulator_lane_xor(unsigned long long bits, int mask, int line) {
  return current_machine()->block.warp_exchange(WarpOperation::lane_xor, bits, mask, line);
}

void kdagen_emulator_initialise_arrival(const void* arrival, int line) {
  current_machine()->block.initialise_arrival(reinterpret_cast<std::uintptr_t>(arrival), line);
}
void kdagen_emulator_publish_arrivals() { current_machine()->block.publish_arrivals(); }
void kdagen_emulator_expect_bytes(const void* arrival, unsigned bytes, const void* record,
                                  unsigned long long record_bytes, int line) {
  current_machine()->block.expect_bytes(reinterpret_cast<std::uintptr_t>(arrival), bytes,
                                        {reinterpret_cast<std::uintptr_t>(record), record_bytes}, line);
}
void kdagen_emulator_wait_for(const void* arrival, unsigned phase, int line) {
  current_machine()->block.wait_for(reinterpret_cast<std::uintptr_t>(arrival), phase, line);
}
void kdagen_emulator_fetch_box(void* to, const void* map, long long first, long long second, long long third,
                               const void* arrival, int line) {
  current_machine()->block.fetch_box(to, *static_cast<const TensorMap*>(map), {0, first, second, third},
                                     reinterpret_cast<std::uintptr_t>(arrival), line, __builtin_return_address(0));
}

void kdagen_emulator_start_copy(void* to, const void* from, bool inside, int line) {
  current_machine()->block.start_copy(to, from, inside, line, __builtin_return_address(0));
}
void kdagen_emulator_end_of_copies() { current_machine()->block.end_of_copies(); }
void kdagen_emulator_wait_for_copies(int later) {
  current_machine()->block.wait_for_copies(later, __builtin_return_address(0));
}

// A hook's return address is the place of the access in the kernel.
#define KDAGEN_ACCESS_HOOKS(prefix, bytes)                                                               \
  void prefix##read##bytes(void* address) { touch(address, bytes, false, __builtin_return_address(0)); } \
  void prefix##write##bytes(void* address) { touch(address, bytes, true, __builtin_return_address(0)); }
#define KDAGEN_ACCESS_HOOKS_OF_ALL_SIZES(prefix) \
  KDAGEN_ACCESS_HOOKS(prefix, 1)                 \
  KDAGEN_ACCESS_HOOKS(prefix, 2)                 \
  KDAGEN_ACCESS_HOOKS(prefix, 4)                 \
  KDAGEN_ACCESS_HOOKS(prefix, 8)                 \
  KDAGEN_ACCESS_HOOKS(prefix, 16)
KDAGEN_ACCESS_HOOKS_OF_ALL_SIZES(__wrap___tsan_)
KDAGEN_ACCESS_HOOKS_OF_ALL_SIZES(__wrap___tsan_unaligned_)

void __wrap___tsan_read_range(void* address, long size) { touch(address, size, false, __builtin_return_address(0)); }
void __wrap___tsan_write_range(void* address, long size) { touch(address, size, true, __builtin_return_address(0)); }

// clang sends copies and fills of structs here; g++ writes them out.
void* __wrap___tsan_memcpy(void* to, const void* from, unsigned long size) {
  touch(from, size, false, __builtin_return_address(0));
  touch(to, size, true, __builtin_return_address(0));
  return __builtin_memcpy(to, from, size);
}
void* __wrap___tsan_memmove(void* to, const void* from, unsigned long size) {
  touch(from, size, false, __builtin_return_address(0));
  touch(to, size, true, __builtin_return_address(0));
  return __builtin_memmove(to, from, size);
}
void* __wrap___tsan_memset(void* to, int value, unsigned long size) {
  touch(to, size, true, __builtin_return_address(0));
  return __builtin_memset(to, value, size);
}

void __wrap___tsan_init() {}
void __wrap___tsan_func_entry(void*) {}
void __wrap___tsan_func_exit() {}
}
