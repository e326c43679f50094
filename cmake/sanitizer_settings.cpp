// SPDX-License-Identifier: Apache-2.0
// What the sanitizers are told in programs built with KDAGEN_SANITIZE. ASAN_OPTIONS and the like still come on top.

// LLVM's allocators mark their slabs where they are compiled into our code; inside libMLIR, which comes without
// sanitizers, they hand out marked memory.
extern "C" const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:check_initialization_order=1:strict_string_checks=1:allow_user_poisoning=0";
}

extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }

// Tests fork while other threads run, and start threads in the child.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0:second_deadlock_stack=1"; }
