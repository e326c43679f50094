// SPDX-License-Identifier: Apache-2.0
#include "runtime/warn.h"

#include <cstdio>
#include <mutex>
#include <set>

#include <fmt/format.h>

namespace kdagen::runtime {
namespace {

struct Warnings {
  std::mutex mutex;
  std::set<std::string> said;
  std::function<void(const std::string&)> sink;
};

Warnings& warnings() {
  static auto* instance = new Warnings;
  return *instance;
}

}  // namespace

void warn_once(const std::string& message) {
  Warnings& state = warnings();
  const std::lock_guard lock(state.mutex);
  if (!state.said.insert(message).second) return;
  if (state.sink)
    state.sink(message);
  else
    fmt::print(stderr, "kdagen: warning: {}\n", message);
}

void set_warning_sink(std::function<void(const std::string&)> sink) {
  Warnings& state = warnings();
  const std::lock_guard lock(state.mutex);
  state.said.clear();
  state.sink = std::move(sink);
}

}  // namespace kdagen::runtime
