// SPDX-License-Identifier: Apache-2.0
#include "runtime/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/files.h"
#include "runtime/trust.h"
#include "runtime/warn.h"

namespace kdagen::runtime {
namespace {

std::vector<std::string> child_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    if (!changes.count(std::string(text.substr(0, text.find('='))))) variables.emplace_back(text);
  }
  for (const auto& [name, value] : changes)
    if (!value.empty()) variables.push_back(name + "=" + value);
  return variables;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

std::string read_to_end(int fd) {
  std::string output;
  char buffer[8192];
  for (;;) {
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return output;
    output.append(buffer, static_cast<std::size_t>(count));
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options) {
  const auto fail = [&](int error) {
    throw ToolchainError(fmt::format("cannot run {}: {}", argv.at(0), std::strerror(error)));
  };
  const std::optional<std::filesystem::path> program = find_program(argv.at(0));
  if (!program) fail(ENOENT);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(errno);
  const FileDescriptor output(ends[0]);
  FileDescriptor input(ends[1]);
  FileActions actions;
  posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(actions.get(), input.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(actions.get(), input.get(), STDERR_FILENO);
  if (!options.directory.empty()) posix_spawn_file_actions_addchdir_np(actions.get(), options.directory.c_str());
  const std::vector<std::string> environment = child_environment(options.environment);
  pid_t child;
  const std::string path = std::filesystem::absolute(*program).string();
  const int error =
      posix_spawn(&child, path.c_str(), actions.get(), nullptr, pointers(argv).data(), pointers(environment).data());
  if (error != 0) fail(error);
  input = FileDescriptor();  // so that the end of the child is the end of the pipe
  ProcessResult result;
  result.output = read_to_end(output.get());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno == ECHILD) break;  // the program ignores SIGCHLD, so the status is lost; the output file decides
    if (errno != EINTR) fail(errno);
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::map<std::string, std::string> compiler_environment(const std::filesystem::path& scratch) {
  std::map<std::string, std::string> variables{{"LC_ALL", "C"}, {"TMPDIR", scratch.string()}};
  for (const char* name : {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH", "C_INCLUDE_PATH",
                           "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "LIBRARY_PATH", "LD_RUN_PATH",
                           "CCC_OVERRIDE_OPTIONS", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES"})
    variables[name] = "";
  return variables;
}

std::optional<std::filesystem::path> find_program(const std::string& name) {
  const auto executable = [](const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error) || ::access(path.c_str(), X_OK) != 0) return false;
    const std::string problem = execution_problem(path);
    if (!problem.empty()) warn_once(fmt::format("{} is not run: {}", path.string(), problem));
    return problem.empty();
  };
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos) {
    if (executable(name)) return name;
    return std::nullopt;
  }
  std::string variable = environment_variable("PATH");
  if (variable.empty()) variable = "/usr/local/bin:/usr/bin:/bin";
  std::string_view search = variable;
  while (!search.empty()) {
    const std::size_t colon = std::min(search.find(':'), search.size());
    const std::string_view folder = search.substr(0, colon);
    // An empty or relative entry means a place below the working directory, where whoever owns that could plant a
    // compiler.
    if (folder.starts_with('/') && executable(std::filesystem::path(folder) / name))
      return std::filesystem::path(folder) / name;
    search.remove_prefix(std::min(colon + 1, search.size()));
  }
  return std::nullopt;
}

std::string environment_variable(const char* name) {
  const char* value = ::secure_getenv(name);  // not to be had by who runs a program with another's rights
  return value ? value : "";
}

}  // namespace kdagen::runtime
