// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "runtime/device.h"

namespace kdagen::runtime {

/// Milliseconds of each of `repetitions` runs of `work` on `stream`, between events, after `warm_ups` untimed ones.
/// Waits for the stream only at the end, so short work is timed back to back.
std::vector<float> time_on_stream(int ordinal, CudaStream stream, int warm_ups, int repetitions,
                                  const std::function<void()>& work);

/// Of values, which must not be empty.
template <class Number>
double median_of(std::vector<Number> values) {
  std::sort(values.begin(), values.end());
  const double upper = values[values.size() / 2], lower = values[(values.size() - 1) / 2];
  return (lower + upper) / 2;
}

}  // namespace kdagen::runtime
