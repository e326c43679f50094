// SPDX-License-Identifier: Apache-2.0
// Tells AddressSanitizer, in programs built with it, which stack a thread goes on with: it would otherwise take a
// fiber's stack for a wild pointer.
#pragma once
#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KDAGEN_HAS_ASAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define KDAGEN_HAS_ASAN 1
#endif
#ifdef KDAGEN_HAS_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace kdagen::emulator {

struct Stack {
  const void* bottom = nullptr;  ///< its lowest address
  std::size_t bytes = 0;
};

#ifdef KDAGEN_HAS_ASAN
/// A function that leaves a context for good may not have its own frame among what it gives up.
#define KDAGEN_LEAVES_A_STACK __attribute__((noinline, no_sanitize("address")))
/// In front of a switch. `frames` is for the context that is left, and given back where it goes on; null where it never
/// does: what AddressSanitizer keeps of its frames, megabytes a fiber, is given up.
KDAGEN_LEAVES_A_STACK inline void leave_for(const Stack& stack, void** frames) {
  __sanitizer_start_switch_fiber(frames, stack.bottom, stack.bytes);
}
/// Behind a switch; `frames` is null where a context begins. Returns the stack that was left.
inline Stack arrive(void* frames) {
  Stack left;
  __sanitizer_finish_switch_fiber(frames, &left.bottom, &left.bytes);
  return left;
}
/// The frames on it are gone.
inline void forget_frames(const void* memory, std::size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(memory, bytes); }
#else
#define KDAGEN_LEAVES_A_STACK
inline void leave_for(const Stack&, void**) {}
inline Stack arrive(void*) { return {}; }
inline void forget_frames(const void*, std::size_t) {}
#endif

}  // namespace kdagen::emulator
