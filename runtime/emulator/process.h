// SPDX-License-Identifier: Apache-2.0
// Starts a program without a shell and collects what it prints.
#pragma once
#include <string>
#include <vector>

namespace kdagen::emulator {

struct ProcessResult {
  bool started = false;
  int exit_code = -1;  ///< -1 if a signal ended it
  std::string output;  ///< standard output and standard error together
};

/// argv[0] is looked up in PATH unless it has a slash.
ProcessResult run_process(const std::vector<std::string>& argv);

}  // namespace kdagen::emulator
