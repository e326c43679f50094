// SPDX-License-Identifier: Apache-2.0
// A stand-in for the CUDA driver library on machines without one: memory is host memory, kernels are only written down.
// Two devices, sm_80 and sm_90. It checks what the real one would: a current context of the right device for each call.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace kdagen::testing {

struct FakeLaunch {
  std::string entry;
  int device = -1;
  unsigned grid[3] = {}, block = 0, shared = 0;
  void* stream = nullptr;
  std::vector<std::uint64_t> words;
};

struct FakeCuda {
  std::vector<FakeLaunch> launches;
  std::vector<std::string> calls;  ///< loads, allocations, memsets in order
  int modules_loaded[2] = {};
  int word_count = 0;        ///< words to copy from each launch
  int parameter_bytes = -1;  ///< what FuncGetParamInfo answers; -1 an error
  int max_threads = 1024, static_shared = 0;
  bool capturing = false;
  int next_launch_result = 0;
  /// What a launch answers; it may take as long as it likes.
  int (*launch_result)(const FakeLaunch& launch) = nullptr;
  bool events_are_calls = false;  ///< "event" in `calls` for each that is recorded
  int next_load_result = 0;
  /// What an event says has passed since another: milliseconds, by the last launch; 1.5 without this.
  float (*elapsed)(const FakeLaunch& last) = nullptr;
  int contexts_on_stack = 0;  ///< of the calling thread
  int current_device = -1;    ///< of the calling thread
  int mistakes = 0;           ///< calls without the right current context
};

/// Of the loaded library.
using FakeCudaState = FakeCuda* (*)();
/// Makes a context of the device current as an application would.
using FakeCudaPush = void (*)(int device);

}  // namespace kdagen::testing
