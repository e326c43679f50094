// SPDX-License-Identifier: Apache-2.0
// Doubles a tensor, tile by tile, with the operands of two tiles ahead; and the same with one fault each.
#include <kdagen/device.cuh>
#include <kdagen/staging.cuh>

namespace {
constexpr int columns = 32, rows = 8, threads = 64, slots = 2;
constexpr unsigned box_bytes = rows * columns * 4;

enum Fault {
  none, read_before_wait, wrong_phase, too_few_bytes, too_many_bytes, unpublished, uninitialised, refilled_while_read,
  misaligned_place, two_boxes_in_one_place, past_the_end, never_announced, thread_wrote_the_place, announced_twice,
  overwritten_counter
};
}  // namespace

struct Arguments {
  TensorMap x_map;
  float* y;
  long long tokens;
};

template <Fault fault>
KD_FUNCTION void stage(const Arguments& arguments, Arrival* arrivals, StagedTile* tiles, float* operands, int number, int count) {
  if (number >= count || threadIdx.x != 0) return;
  const int slot = number % slots;
  float* place = operands + slot * 512;
  tiles[slot] = StagedTile{0, number * rows, arguments.tokens, 0, rows};
  if (fault == thread_wrote_the_place) place[3] = 1.0f;  // at: thread_wrote_the_place
  const unsigned bytes = fault == too_few_bytes ? box_bytes - 16 : fault == too_many_bytes ? box_bytes + 16 : box_bytes;
  if (fault != never_announced || number != 2) expect_bytes(&arrivals[slot], bytes, &tiles[slot]);
  if (fault == announced_twice) expect_bytes(&arrivals[slot], bytes, &tiles[slot]);
  if (fault == misaligned_place) place += 4;
  if (fault == past_the_end) place += 1024;
  fetch_box(place, arguments.x_map, number * rows, 0, 0, &arrivals[slot]);  // at: fetch
  if (fault == two_boxes_in_one_place) fetch_box(place, arguments.x_map, number * rows, 0, 0, &arrivals[slot]);
}

template <Fault fault>
KD_FUNCTION void run(const Arguments& arguments) {
  KD_DYNAMIC_SHARED(float, shared);  // two slots of 2048 bytes, counters, tiles
  Arrival* arrivals = reinterpret_cast<Arrival*>(shared + 1024);
  StagedTile* tiles = reinterpret_cast<StagedTile*>(shared + 1028);
  const int count = static_cast<int>((arguments.tokens + rows - 1) / rows);
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < slots; ++slot)
      if (fault != uninitialised || slot != 1) initialise_arrival(&arrivals[slot]);
    if (fault != unpublished) publish_arrivals();
  }
  block_barrier();
  for (int ahead = 0; ahead < slots; ++ahead) stage<fault>(arguments, arrivals, tiles, shared, ahead, count);
  if (fault == overwritten_counter && threadIdx.x == 63) shared[1024] = 1.0f;
  int slot = 0;
  unsigned phase = 0;
  for (int number = 0; number < count; ++number, next_slot(slot, phase, slots)) {
    if (fault != read_before_wait || number != 1) wait_for(&arrivals[slot], fault == wrong_phase ? phase ^ 1 : phase);
    const long long token = fault == read_before_wait ? number * rows : tiles[slot].token;
    float sum[4];
    for (int i = 0; i < 4; ++i) sum[i] = shared[slot * 512 + static_cast<int>(threadIdx.x) * 4 + i];  // at: read
    if (fault != refilled_while_read) block_barrier();
    stage<fault>(arguments, arrivals, tiles, shared, number + slots, count);
    if (fault == refilled_while_read) block_barrier();
    for (int i = 0; i < 4; ++i) {
      const long long at = token * columns + static_cast<int>(threadIdx.x) * 4 + i;
      if (at < arguments.tokens * columns) arguments.y[at] = 2.0f * sum[i];
    }
  }
}

#define KERNEL(fault)                                                                                            \
  KD_KERNEL(64, 0) void staged_##fault(const __grid_constant__ Arguments arguments) { run<fault>(arguments); } \
  KD_ENTRY(staged_##fault, Arguments)

KERNEL(none);
KERNEL(read_before_wait);
KERNEL(wrong_phase);
KERNEL(too_few_bytes);
KERNEL(too_many_bytes);
KERNEL(unpublished);
KERNEL(uninitialised);
KERNEL(refilled_while_read);
KERNEL(misaligned_place);
KERNEL(two_boxes_in_one_place);
KERNEL(past_the_end);
KERNEL(never_announced);
KERNEL(thread_wrote_the_place);
KERNEL(announced_twice);
KERNEL(overwritten_counter);
