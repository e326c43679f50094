// SPDX-License-Identifier: Apache-2.0
// Folders, environment and processes for tests.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>

#include "runtime/cache_directory.h"

namespace kdagen::testing {

using Scratch = runtime::TemporaryDirectory;
inline Scratch scratch() { return Scratch(std::vector<std::filesystem::path>{}); }

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void spill(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Sets a variable (or removes it) until the end of the scope.
class WithVariable {
 public:
  WithVariable(std::string name, std::optional<std::string> value) : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str())) old_ = old;
    set(value);
  }
  ~WithVariable() { set(old_); }
  WithVariable(const WithVariable&) = delete;
  WithVariable& operator=(const WithVariable&) = delete;

 private:
  void set(const std::optional<std::string>& value) {
    if (value)
      ::setenv(name_.c_str(), value->c_str(), 1);
    else
      ::unsetenv(name_.c_str());
  }
  std::string name_;
  std::optional<std::string> old_;
};

/// Starts `action` in a child; its result is the exit code, 99 if it throws.
inline pid_t start_child(const std::function<int()>& action) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int code = 99;
  try {
    code = action();
  } catch (...) {
  }
  std::_Exit(code);
}

inline int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// For what a process can do once only.
inline int in_child(const std::function<int()>& action) { return wait_for(start_child(action)); }

}  // namespace kdagen::testing
