// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/driver.h"
#include "runtime/files.h"

namespace kdagen::tune {
namespace {

using nlohmann::json;

/// The child's whole life.
[[noreturn]] void live(const Work& work, const std::vector<Casualty>& casualties, int file) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Report report(file);
  try {
    report.send({{"result", work(casualties, report)}});
  } catch (const runtime::DeviceLost& error) {
    report.send({{"lost", error.what()}});
  } catch (const Error& error) {
    report.send({{"error", error.what()}, {"code", error.exit_code()}});
  } catch (const std::bad_alloc&) {
    report.send({{"error", "out of memory"}, {"code", 3}});
  } catch (const std::exception& error) {
    report.send({{"error", fmt::format("internal error: {}", error.what())}, {"code", 70}});
  }
  std::_Exit(0);  // without what the parent has not printed yet
}

/// A child that is ended and waited for with its object.
class Worker {
 public:
  Worker(const Work& work, const std::vector<Casualty>& casualties) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
    output_ = runtime::FileDescriptor(ends[0]);
    runtime::FileDescriptor input(ends[1]);
    child_ = ::fork();
    if (child_ < 0) fail("fork");
    if (child_ > 0) return;
    output_ = runtime::FileDescriptor();
    live(work, casualties, input.get());
  }
  ~Worker() { end(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  enum class Event { line, silence, end };
  /// The next line, if it comes before `until`.
  Event next(std::optional<Clock::time_point> until, std::string& line) {
    while (true) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return Event::line;
      }
      if (!wait(until)) return Event::silence;
      char bytes[4096];
      const ssize_t count = ::read(output_.get(), bytes, sizeof bytes);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return Event::end;
      buffer_.append(bytes, static_cast<size_t>(count));
    }
  }

  /// How the process ended, in words. A child that has said all may still hold the device for a while.
  std::string end() {
    if (child_ <= 0) return "";
    ::kill(child_, SIGKILL);
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0)
      if (errno != EINTR) break;
    child_ = 0;
    if (WIFSIGNALED(status)) return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
    return fmt::format("exit code {}", WEXITSTATUS(status));
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    throw ToolchainError(
        fmt::format("cannot start a process to try candidates in: {}: {}", what, std::strerror(errno)));
  }

  bool wait(std::optional<Clock::time_point> until) const {
    while (true) {
      int left = -1;
      if (until)
        left = static_cast<int>(std::clamp<int64_t>(
            std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now()).count(), 0, 1 << 30));
      pollfd file{output_.get(), POLLIN, 0};
      const int ready = ::poll(&file, 1, left);
      if (ready > 0) return true;
      if (ready == 0) return false;
      if (errno != EINTR) return true;  // the read says what is wrong
    }
  }

  runtime::FileDescriptor output_;
  pid_t child_ = 0;
  std::string buffer_;
};

/// The result, or the candidate that ended the process.
std::optional<json> watch(Worker& worker, const Progress& progress, Casualty& casualty) {
  std::optional<Clock::time_point> until;
  Clock::duration limit{};
  std::string line;
  casualty = {};
  while (true) {
    const Worker::Event event = worker.next(until, line);
    if (event == Worker::Event::silence) {
      casualty.reason =
          fmt::format("ended after {:.0f} s without a result", std::chrono::duration<double>(limit).count());
      return {};
    }
    if (event == Worker::Event::end) {
      // The child has closed its end, so it is over or about to be: give it the time to say how.
      casualty.reason = fmt::format("ended its process: {}", worker.end());
      return {};
    }
    const json message = json::parse(line);
    if (message.contains("trying")) {
      casualty.schedule = message["trying"];
      limit = std::chrono::milliseconds(message["limit_ms"].get<int64_t>());
      until = casualty.schedule.empty() ? std::nullopt : std::optional(Clock::now() + limit);
    } else if (message.contains("progress")) {
      progress(search_result(message["progress"]), message["candidates"].get<size_t>());
    } else if (message.contains("lost")) {
      casualty.reason = message["lost"];
      return {};
    } else if (message.contains("error")) {
      throw Error(message["error"].get<std::string>(), message["code"].get<int>());
    } else {
      return message.at("result");
    }
  }
}

}  // namespace

void Report::trying(const std::string& schedule, Clock::duration limit) const {
  send({{"trying", schedule}, {"limit_ms", std::chrono::ceil<std::chrono::milliseconds>(limit).count()}});
}

void Report::progress(const SearchResult& so_far, size_t candidates) const {
  send({{"progress", to_json(so_far)}, {"candidates", candidates}});
}

void Report::send(const json& message) const {
  const std::string line = message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t count = ::write(file_, line.data() + at, line.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) std::_Exit(1);
    at += static_cast<size_t>(count);
  }
}

json supervise(const Work& work, const Progress& progress) {
  std::vector<Casualty> casualties;
  while (true) {
    Worker worker(work, casualties);
    Casualty casualty;
    if (const std::optional<json> result = watch(worker, progress, casualty)) return *result;
    const bool again = std::any_of(casualties.begin(), casualties.end(),
                                   [&](const Casualty& known) { return known.schedule == casualty.schedule; });
    if (casualty.schedule.empty() || again)
      throw ToolchainError(fmt::format(
          "the process that tries schedules failed{}: {}",
          again ? fmt::format(" at {} once more", casualty.schedule) : " while it tried none", casualty.reason));
    casualties.push_back(casualty);
  }
}

json to_json(const SearchResult& result) {
  return {{"best", result.best},
          {"ms", result.ms},
          {"default_ms", result.default_ms},
          {"tried", result.tried},
          {"rejected", result.rejected},
          {"reasons", result.reasons}};
}

SearchResult search_result(const json& json) {
  return {json.at("best").get<std::string>(),  json.at("ms").get<double>(),
          json.at("default_ms").get<double>(), json.at("tried").get<int>(),
          json.at("rejected").get<int>(),      json.at("reasons").get<std::map<std::string, int>>()};
}

}  // namespace kdagen::tune
