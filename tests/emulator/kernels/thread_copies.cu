// SPDX-License-Identifier: Apache-2.0
// Doubles a tensor, tile by tile, with the copies of two tiles started ahead by the threads; and the same with one
// fault each.
#include <kdagen/device.cuh>
#include <kdagen/staging.cuh>

namespace {
constexpr int columns = 32, rows = 8, threads = 64, slots = 2;

enum Fault {
  none, read_before_wait, too_many_left_to_wait_for, request_never_ended, no_empty_request, no_barrier_after_wait,
  refilled_while_read, misaligned_place, misaligned_source, two_copies_in_one_place, past_the_end, rows_of_nobody,
  written_on_the_way
};
}  // namespace

struct Arguments {
  const float* x;
  float* y;
  long long tokens;
};

template <Fault fault>
KD_FUNCTION void stage(const Arguments& arguments, float* operands, int number, int count) {
  if (number >= count) {
    if (fault != no_empty_request) end_of_copies();
    return;
  }
  float* place = operands + number % slots * 256;
  const float* from = arguments.x + number * rows * columns;
  const long long left = arguments.tokens - number * rows;
  const int here = left < rows && fault != rows_of_nobody ? static_cast<int>(left) : rows;
  if (fault == misaligned_place) place += 1;
  if (fault == misaligned_source) from += 1;
  if (fault == past_the_end) place += 1024;
  start_box(place, from, columns, here, rows, columns, threads);
  if (fault == two_copies_in_one_place && threadIdx.x == 5) start_copy(place, from, true);
  if (fault == written_on_the_way && threadIdx.x == 9) place[3] = 1.0f;
  if (fault != request_never_ended || number != 1) end_of_copies();
}

template <Fault fault>
KD_FUNCTION void run(const Arguments& arguments) {
  KD_DYNAMIC_SHARED(float, shared);  // two slots of 1024 bytes
  const int count = static_cast<int>((arguments.tokens + rows - 1) / rows);
  for (int ahead = 0; ahead < slots; ++ahead) stage<fault>(arguments, shared, ahead, count);
  for (int number = 0; number < count; ++number) {
    if (fault == too_many_left_to_wait_for) wait_for_copies<slots>();
    else if (fault != read_before_wait || number != 1) wait_for_copies<slots - 1>();
    if (fault != no_barrier_after_wait) block_barrier();
    float sum[4];  // of another thread's copies
    const int mine = static_cast<int>(threads - 1 - threadIdx.x) * 4;
    for (int i = 0; i < 4; ++i) sum[i] = shared[number % slots * 256 + mine + i];
    if (fault != refilled_while_read) block_barrier();
    stage<fault>(arguments, shared, number + slots, count);
    for (int i = 0; i < 4; ++i) {
      const long long at = number * rows * columns + mine + i;
      if (at < arguments.tokens * columns) arguments.y[at] = 2.0f * sum[i];
      else if (sum[i] != 0.0f) arguments.y[0] = -1.0f;
    }
  }
}

#define KERNEL(fault)                                                              \
  KD_KERNEL(64, 0) void copied_##fault(const Arguments arguments) { run<fault>(arguments); } \
  KD_ENTRY(copied_##fault, Arguments)

KERNEL(none);
KERNEL(read_before_wait);
KERNEL(too_many_left_to_wait_for);
KERNEL(request_never_ended);
KERNEL(no_empty_request);
KERNEL(no_barrier_after_wait);
KERNEL(refilled_while_read);
KERNEL(misaligned_place);
KERNEL(misaligned_source);
KERNEL(two_copies_in_one_place);
KERNEL(past_the_end);
KERNEL(rows_of_nobody);
KERNEL(written_on_the_way);
