// SPDX-License-Identifier: Apache-2.0
// Part of the device prelude: sums in the program's order. Included by <kdagen/device.cuh>.
#pragma once

namespace kdagen_device {

/// Scan at `row` of one number a row, in blocks of 8 rows: sums inside a block first, then added to the carry. Reads
/// only the rows that take part, all of them at once. whole: the tile is one step, so every row is there and a total of
/// the same numbers shares the additions; else later steps are not written yet.
template <int chunk, bool exclusive, bool reverse, bool whole>
KD_FUNCTION float row_scan(const float* x, int row, int rows) {
  constexpr int blocks = (chunk + 7) / 8;
  const int low = reverse && !whole ? row : 0, high = whole || reverse ? rows : row < rows ? row + 1 : 0;
  float carry = 0.0f, result = 0.0f;
#pragma unroll
  for (int k = 0; k < blocks; ++k) {
    float sum = 0.0f, total = carry;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int at = 8 * (reverse ? blocks - 1 - k : k) + (reverse ? 7 - j : j);
      if (exclusive && at == row) result = total;
      sum += low <= at && at < high ? x[at] : 0.0f;
      total = carry + sum;
      if (!exclusive && at == row) result = total;
    }
    carry = total;
  }
  return row < rows ? result : 0.0f;
}

/// The forward scan's last value.
template <int chunk>
KD_FUNCTION float row_total(const float* x, int rows) {
  return row_scan<chunk, false, false, true>(x, rows - 1, rows);
}

/// The sum of terms term(0..count-1) by the balanced tree over their numbers (neighbours first, padded with +0):
/// this thread's share, the `part`-th of `parts` (a power of two) equal runs of the padded count.
template <class Term>
KD_FUNCTION float tree_part(long long count, int part, int parts, const Term& term) {
  long long padded = parts;
  while (padded < count) padded *= 2;
  const long long run = padded / parts, begin = part * run, end = begin + run < count ? begin + run : count;
  float stack[40];  // sums of finished subtrees, largest first
  int top = 0;
  for (long long at = begin; at < end; ++at) {
    float sum = term(at);
#pragma unroll 1
    for (long long done = at - begin; done & 1; done >>= 1) sum = stack[--top] + sum;
    stack[top++] = sum;
  }
  float sum = top > 0 ? stack[--top] : 0.0f;
#pragma unroll 1
  while (top > 0) sum = stack[--top] + sum;
  return sum;
}

/// Second stage of a parameter sum, by a block of 256 threads: *result = the sum of term(0..count-1) by the same tree,
/// for each of 32 columns, once a block. 8 threads share a column: each takes an equal run of the terms. `wanted`: the
/// thread's column exists. `parts`: 256 numbers in shared memory.
template <class Term>
KD_FUNCTION void sum_segments(long long count, bool wanted, float* parts, float* result, const Term& term) {
  const int part = static_cast<int>(threadIdx.x) / 32;
  parts[threadIdx.x] = wanted ? tree_part(count, part, 8, term) : 0.0f;
  block_barrier();  // parts is complete
  const float* p = parts + threadIdx.x;
  if (part == 0 && wanted) *result = ((p[0] + p[32]) + (p[64] + p[96])) + ((p[128] + p[160]) + (p[192] + p[224]));
}

}  // namespace kdagen_device
