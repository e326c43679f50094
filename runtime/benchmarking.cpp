// SPDX-License-Identifier: Apache-2.0
#include "runtime/benchmarking.h"

#include <memory>

namespace kdagen::runtime {

std::vector<float> time_on_stream(int ordinal, CudaStream stream, int warm_ups, int repetitions,
                                  const std::function<void()>& work) {
  for (int i = 0; i < warm_ups; ++i) work();
  std::vector<std::pair<std::unique_ptr<Event>, std::unique_ptr<Event>>> events;
  for (int i = 0; i < repetitions; ++i)
    events.emplace_back(std::make_unique<Event>(ordinal), std::make_unique<Event>(ordinal));
  for (const auto& [before, after] : events) {
    before->record(stream);
    work();
    after->record(stream);
  }
  std::vector<float> milliseconds;
  for (const auto& [before, after] : events) {
    after->synchronize();
    milliseconds.push_back(after->elapsed_since(*before));
  }
  return milliseconds;
}

}  // namespace kdagen::runtime
