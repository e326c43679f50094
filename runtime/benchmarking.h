// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <vector>

#include "runtime/device.h"

namespace kdagen::runtime {

/// Milliseconds of each of `repetitions` runs of `work` on `stream`, between events, after `warm_ups` untimed ones.
/// Waits for the stream only at the end, so short work is timed back to back.
std::vector<float> time_on_stream(int ordinal, CudaStream stream, int warm_ups, int repetitions,
                                  const std::function<void()>& work);

}  // namespace kdagen::runtime
