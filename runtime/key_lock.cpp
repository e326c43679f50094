// SPDX-License-Identifier: Apache-2.0
#include "runtime/key_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace kdagen::runtime {
namespace {

// The last holder removes the file, so a lock may be on a file that has lost its name: then another one counts.
bool is_named(int fd, const std::filesystem::path& file) {
  struct stat held{}, named{};
  return ::fstat(fd, &held) == 0 && ::stat(file.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

}  // namespace

KeyLock::KeyLock(std::filesystem::path file, std::chrono::milliseconds patience) : file_(std::move(file)) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + patience;
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    descriptor_ = FileDescriptor(::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!descriptor_) return;
    while (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return;
      if (Clock::now() >= end) {
        state_ = State::busy;
        return;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(50));
    }
    if (is_named(descriptor_.get(), file_)) break;
  }
  state_ = State::held;
}

KeyLock::~KeyLock() {
  if (state_ == State::held) ::unlink(file_.c_str());
}

}  // namespace kdagen::runtime
