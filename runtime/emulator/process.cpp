// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace kdagen::emulator {

ProcessResult run_process(const std::vector<std::string>& argv) {
  ProcessResult result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return result;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child;
  result.started = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (result.started) {
    std::array<char, 4096> chunk;
    ssize_t count;
    while ((count = read(ends[0], chunk.data(), chunk.size())) > 0 || (count < 0 && errno == EINTR))
      if (count > 0) result.output.append(chunk.data(), static_cast<std::size_t>(count));
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  }
  close(ends[0]);
  return result;
}

}  // namespace kdagen::emulator
