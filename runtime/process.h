// SPDX-License-Identifier: Apache-2.0
// Running compilers: no shell, so paths may hold any character.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kdagen::runtime {

struct ProcessResult {
  int exit_code = 0;   ///< 128 + number when a signal ended it
  std::string output;  ///< stdout and stderr together
};

struct ProcessOptions {
  std::filesystem::path directory;  ///< working directory; empty for the caller's
  /// Set in the child's environment; an empty value removes the variable.
  std::map<std::string, std::string> environment;
};

/// Runs argv[0] (a path, or a name looked up in PATH) to its end, in a process group of its own. ToolchainError when it
/// cannot be started, or does not end within time_limit(). Its LD_LIBRARY_PATH is the caller's without what others
/// could fill.
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options = {});

/// $KDAGEN_TIME_LIMIT in seconds; 20 minutes without it.
std::chrono::seconds time_limit();

struct ChildEnd {
  std::string output;
  int status = 0;    ///< waitpid's
  std::string late;  ///< when the time ran out: what happened, to follow the child's name
};

/// Reads what the child writes until it ends, whatever processes it leaves behind. After time_limit() it is killed with
/// its process group, which it must lead.
ChildEnd await_child(pid_t child, int output);

/// Environment for a compiler: messages in English, temporary files in `scratch` ("." for the working directory of a
/// compiler that hands its names to a shell of its own), and none of the variables that would slip options, headers or
/// files to write past the cache key.
std::map<std::string, std::string> compiler_environment(const std::filesystem::path& scratch);

/// An executable file: `name` itself if it has a slash, else the first in the absolute folders of PATH. One that
/// everybody could have put there (trust.h) is passed over with a warning.
std::optional<std::filesystem::path> find_program(const std::string& name);

/// The variable's value; empty when unset, and in a program that runs with another user's rights.
std::string environment_variable(const char* name);

}  // namespace kdagen::runtime
