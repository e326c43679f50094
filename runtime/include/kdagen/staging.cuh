// SPDX-License-Identifier: Apache-2.0
// The second half of the device prelude: operands that travel to shared memory while the block computes. Included by
// emitted texts that stage their operands; after <kdagen/device.cuh>. Two ways: the copy engine brings boxes (sm_90 and
// later), or the threads start copies and wait for them later (sm_80 and later).
//
// The protocol of one slot: its arrival counter is initialised once; for each tile one thread announces the bytes
// (expect_bytes) and asks for the boxes (fetch_box); every thread waits (wait_for) before it reads them; a block
// barrier after the last read lets that one thread fill the slot again.
//
// By the threads: for each tile each of them starts its part of the boxes (start_box) and ends the request
// (end_of_copies). A thread waits for its own copies (wait_for_copies); a block barrier then shows them to the others.
// A block barrier after the last read lets the slot be filled again.
#pragma once

namespace kdagen_device {

/// A tensor as the copy engine sees it, made by the runtime. In a kernel's arguments only.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

/// Counts the bytes of one slot. In shared memory; holds the hardware's barrier object.
struct alignas(8) Arrival {
  unsigned long long state;
};

/// Where a tile lies; written by the thread that asks for its operands, read by all after they arrived.
struct alignas(8) StagedTile {
  long long batch, token;
  long long end;       // the first token after the tile's sequence
  long long sequence;  // packed sequences only
  long long rows;      // as in Tile
};

KD_FUNCTION Tile tile_of(const StagedTile& staged) {
  return Tile{staged.batch, staged.token, static_cast<int>(staged.rows)};
}

/// The chunk of tokens in front of tile `number`, as if it were a tile of the same sequence: where next_staged_tile
/// goes on to tile `number`. Found from nothing; the tables are null for batch rows of equal length.
KD_FUNCTION StagedTile staged_tile_before(long long number, int chunk, long long tokens, long long sequences,
                                          const long long* first_tile, const long long* sequence_start) {
  if (first_tile == nullptr) {
    const Tile tile = find_tile(number, chunk, tokens);
    return StagedTile{tile.batch, tile.token - chunk, tokens, 0, 0};
  }
  const long long s = sequence_of_tile(number, sequences, first_tile);
  return StagedTile{0, sequence_start[s] + (number - first_tile[s] - 1) * chunk, sequence_start[s + 1], s, 0};
}

/// The tile after `tile`, which must be there: the next rows of its sequence, else the start of the next batch row or
/// of the next sequence that has rows.
KD_FUNCTION StagedTile next_staged_tile(const StagedTile& tile, int chunk, const long long* sequence_start) {
  StagedTile next = tile;
  next.token += chunk;
  if (next.token >= next.end) {
    if (sequence_start == nullptr) {
      ++next.batch;
      next.token = 0;
    } else {
#pragma unroll 1
      do ++next.sequence;
      while (sequence_start[next.sequence + 1] <= sequence_start[next.sequence]);
      next.token = sequence_start[next.sequence];
      next.end = sequence_start[next.sequence + 1];
    }
  }
  const long long rest = next.end - next.token;
  next.rows = rest < chunk ? rest : chunk;
  return next;
}

#ifdef KDAGEN_EMULATOR
// Watched by the emulator: data arrives only at the wait, in any order, over poison.
KD_FUNCTION void initialise_arrival(Arrival* arrival, int line = __builtin_LINE()) {
  kdagen_emulator_initialise_arrival(arrival, line);
}
KD_FUNCTION void publish_arrivals() { kdagen_emulator_publish_arrivals(); }
template <class Record>
KD_FUNCTION void expect_bytes(Arrival* arrival, unsigned bytes, const Record* record, int line = __builtin_LINE()) {
  kdagen_emulator_expect_bytes(arrival, bytes, record, sizeof *record, line);
}
KD_FUNCTION void wait_for(Arrival* arrival, unsigned phase, int line = __builtin_LINE()) {
  kdagen_emulator_wait_for(arrival, phase, line);
}
KD_FUNCTION void fetch_box(void* to_shared, const TensorMap& map, long long first, long long second, long long third,
                           Arrival* arrival, int line = __builtin_LINE()) {
  kdagen_emulator_fetch_box(to_shared, &map, first, second, third, arrival, line);
}
KD_FUNCTION void start_copy(void* to_shared, const void* from, bool inside, int line = __builtin_LINE()) {
  kdagen_emulator_start_copy(to_shared, from, inside, line);
}
KD_FUNCTION void end_of_copies() { kdagen_emulator_end_of_copies(); }
template <int later>
KD_FUNCTION void wait_for_copies() {
  kdagen_emulator_wait_for_copies(later);
}
#else
KD_FUNCTION unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// One thread, before anything else happens to the counter: a phase ends with one announcement and its bytes.
KD_FUNCTION void initialise_arrival(Arrival* arrival) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrival)) : "memory");
}

/// By the same thread after the last initialise_arrival: the copy engine sees the counters.
KD_FUNCTION void publish_arrivals() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// Announces the bytes of the phase under way. Who waits for them sees what this thread wrote to the record before.
template <class Record>
KD_FUNCTION void expect_bytes(Arrival* arrival, unsigned bytes, const Record*) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrival)), "r"(bytes)
               : "memory");
}

/// Returns when phase 0, 1, 0, ... is over: its bytes are in shared memory.
KD_FUNCTION void wait_for(Arrival* arrival, unsigned phase) {
  asm volatile(
      "{\n"
      ".reg .pred arrived;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 arrived, [%0], %1;\n"
      "@!arrived bra again;\n"
      "}" ::"r"(shared_address(arrival)),
      "r"(phase)
      : "memory");
}

/// Asks for the map's box at (row `first`, `second`, `third`) of a tensor, all columns; rows outside the tensor
/// arrive as 0. `to_shared` is a multiple of 128.
KD_FUNCTION void fetch_box(void* to_shared, const TensorMap& map, long long first, long long second, long long third,
                           Arrival* arrival) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::
          "r"(shared_address(to_shared)),
      "l"(&map), "r"(0), "r"(static_cast<int>(first)), "r"(static_cast<int>(second)), "r"(static_cast<int>(third)),
      "r"(shared_address(arrival))
      : "memory");
}

/// Starts to copy 16 bytes, or to clear them if they are not `inside` (then nothing is read). Both places are multiples
/// of 16.
KD_FUNCTION void start_copy(void* to_shared, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}

/// What this thread has started since the last end belongs to one request.
KD_FUNCTION void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Returns when this thread's copies have arrived, those of its `later` last requests perhaps not.
template <int later>
KD_FUNCTION void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
}
#endif

/// After a tile: the slot of the next one, and the phase to wait for there.
KD_FUNCTION void next_slot(int& slot, unsigned& phase, int slots) {
  if (++slot == slots) slot = 0, phase ^= 1;
}

/// The same box by all threads of the block, for tensors of any alignment: `rows` rows of `columns` elements, the first
/// at `from`, `stride` elements apart, and zeros up to `box_rows`. Seen by all after a block barrier.
template <class T>
KD_SEPARATE_FUNCTION void copy_box(T* to_shared, const T* from, long long stride, int rows, int box_rows, int columns,
                                   int threads) {
#pragma unroll 1
  for (int at = static_cast<int>(threadIdx.x); at < box_rows * columns; at += threads)
    to_shared[at] = at < rows * columns ? from[at / columns * stride + at % columns] : to<T>(0.0f);
}

/// Row `row` of a tile whose first row is at `first`, in global memory. aligned: rows are less than 2^32 bytes apart,
/// so one wide multiplication finds it.
template <bool aligned, class T>
KD_FUNCTION T* row_of(T* first, long long stride, int row) {
#ifndef KDAGEN_EMULATOR
  if constexpr (aligned) {
    __builtin_assume(
        __isGlobal(first));  // it may have been kept in shared memory, where the compiler loses sight of that
    unsigned long long bytes;
    asm("mul.wide.u32 %0, %1, %2;"
        : "=l"(bytes)
        : "r"(row), "r"(static_cast<unsigned>(stride * static_cast<long long>(sizeof(T)))));
    return reinterpret_cast<T*>(reinterpret_cast<unsigned long long>(first) + bytes);
  }
#endif
  return first + row * stride;
}

/// Starts the copies of the same box, for tensors whose rows are multiples of 16 bytes apart.
template <class T>
KD_FUNCTION void start_box(T* to_shared, const T* from, long long stride, int rows, int box_rows, int columns,
                           int threads) {
  constexpr int unit = 16 / static_cast<int>(sizeof(T));
  const int units = columns / unit;
#pragma unroll 1  // addresses of several copies at a time would take the values' registers
  for (int at = static_cast<int>(threadIdx.x); at < box_rows * units; at += threads) {
    const int row = at / units, column = at % units * unit;
    start_copy(to_shared + row * columns + column, row_of<true>(from, stride, row) + column, row < rows);
  }
}

}  // namespace kdagen_device
