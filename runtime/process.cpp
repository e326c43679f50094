// SPDX-License-Identifier: Apache-2.0
#include "runtime/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/files.h"
#include "runtime/trust.h"
#include "runtime/warn.h"

namespace kdagen::runtime {
namespace {

/// The caller's LD_LIBRARY_PATH without what others could fill. Relative entries mean another place in the child.
std::string trusted_library_path() {
  std::string kept;
  const std::string variable = environment_variable("LD_LIBRARY_PATH");
  for (std::string_view rest = variable; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find_first_of(":;"));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    if (entry.starts_with('/') && search_problem(entry).empty()) kept.append(kept.empty() ? "" : ":").append(entry);
  }
  return kept;
}

std::vector<std::string> child_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> variables;
  std::map<std::string, std::string> all = changes;
  all.emplace("LD_LIBRARY_PATH", trusted_library_path());
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    if (!all.count(std::string(text.substr(0, text.find('='))))) variables.emplace_back(text);
  }
  for (const auto& [name, value] : all)
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

/// Of a child that leads a process group of its own.
class OwnGroup {
 public:
  OwnGroup() {
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes_, 0);
  }
  ~OwnGroup() { posix_spawnattr_destroy(&attributes_); }
  OwnGroup(const OwnGroup&) = delete;
  OwnGroup& operator=(const OwnGroup&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

/// Adds what can be read, if there is something within the time. False at the end of the file.
bool read_some(int file, std::string& output, std::chrono::milliseconds patience) {
  pollfd readable{file, POLLIN, 0};
  if (::poll(&readable, 1, static_cast<int>(patience.count())) <= 0) return true;
  char buffer[1 << 16];
  const ssize_t count = ::read(file, buffer, sizeof buffer);
  if (count > 0) output.append(buffer, static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

}  // namespace

std::chrono::seconds time_limit() {
  constexpr std::chrono::seconds otherwise(1200);
  const std::string text = environment_variable("KDAGEN_TIME_LIMIT");
  if (text.empty()) return otherwise;
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size() && seconds > 0) return std::chrono::seconds(seconds);
  warn_once(
      fmt::format("KDAGEN_TIME_LIMIT={} is no number of seconds from 1 on; {} are taken", text, otherwise.count()));
  return otherwise;
}

ChildEnd await_child(pid_t child, int output) {
  using namespace std::chrono_literals;
  constexpr std::size_t longest_rest = 1 << 20;  // what a pipe holds at most; others may go on writing
  const auto limit = time_limit();
  const auto end = std::chrono::steady_clock::now() + limit;
  ChildEnd result;
  for (bool open = true;;) {
    if (open) open = read_some(output, result.output, 20ms);
    // Without a child to wait for, the program ignores SIGCHLD, and the status is lost; the output decides.
    if (const pid_t ended = ::waitpid(child, &result.status, WNOHANG); ended == child || (ended < 0 && errno == ECHILD))
      break;
    if (!open) std::this_thread::sleep_for(1ms);
    if (std::chrono::steady_clock::now() < end) continue;
    ::kill(-child, SIGKILL);
    while (::waitpid(child, &result.status, 0) < 0 && errno == EINTR) continue;
    result.late = fmt::format(
        "did not end within {} s, and was stopped; KDAGEN_TIME_LIMIT sets another limit in "
        "seconds",
        limit.count());
    return result;
  }
  // No waiting for the end of the file, which a process that was left behind may keep away.
  const std::size_t before = result.output.size();
  for (std::size_t last = before - 1; result.output.size() != last && result.output.size() < before + longest_rest;) {
    last = result.output.size();
    read_some(output, result.output, 0ms);
  }
  return result;
}

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
  const OwnGroup group;
  const std::vector<std::string> environment = child_environment(options.environment);
  pid_t child;
  const std::string path = std::filesystem::absolute(*program).string();
  const int error = posix_spawn(&child, path.c_str(), actions.get(), group.get(), pointers(argv).data(),
                                pointers(environment).data());
  if (error != 0) fail(error);
  input = FileDescriptor();  // so that the end of the child is the end of the pipe
  ChildEnd ended = await_child(child, output.get());
  if (!ended.late.empty()) throw ToolchainError(fmt::format("{} {}\n{}", argv[0], ended.late, ended.output));
  return {WIFEXITED(ended.status) ? WEXITSTATUS(ended.status) : 128 + WTERMSIG(ended.status), std::move(ended.output)};
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
