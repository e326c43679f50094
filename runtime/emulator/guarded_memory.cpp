// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <new>

#include "runtime/emulator/emulator.h"

namespace kdagen::emulator {

std::shared_ptr<void> allocate_guarded(std::size_t bytes) {
  constexpr std::size_t margin = 1 << 20, page = 4096;
  const std::size_t inner = (bytes + page - 1) / page * page, whole = inner + 2 * margin;
  void* const mapping = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  char* const data = static_cast<char*>(mapping) + margin;
  std::shared_ptr<void> memory(data, [mapping, whole](void*) { munmap(mapping, whole); });
  if (inner && mprotect(data, inner, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  return memory;
}

}  // namespace kdagen::emulator
