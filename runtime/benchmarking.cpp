// SPDX-License-Identifier: Apache-2.0
#include "runtime/benchmarking.h"

#include <memory>

namespace kdagen::runtime {

std::vector<float> time_on_stream(int ordinal, CudaStream stream, int warm_ups, int repetitions,
                                  const std::function<void()>& work) {
  for (int i = 0; i < warm_ups; ++i) work();
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < 2 * repetitions; ++i) events.push_back(std::make_unique<Event>(ordinal));
  for (int i = 0; i < repetitions; ++i) {
    events[2 * i]->record(stream);
    work();
    events[2 * i + 1]->record(stream);
  }
  std::vector<float> milliseconds;
  for (int i = 0; i < repetitions; ++i) {
    events[2 * i + 1]->synchronize();
    milliseconds.push_back(events[2 * i + 1]->elapsed_since(*events[2 * i]));
  }
  return milliseconds;
}

}  // namespace kdagen::runtime
