// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <filesystem>

#include "runtime/files.h"

namespace kdagen::runtime {

/// An exclusive lock between processes and threads by a file that exists only while it is held or waited for. It ends
/// with its process, so who waits longer than `patience` waits for one that is stopped or very slow.
class KeyLock {
 public:
  enum class State {
    held,
    busy,        ///< another holds it still: what the lock is for must not be written
    unavailable  ///< no such file can be made here, or the file system has no locks
  };

  KeyLock(std::filesystem::path file, std::chrono::milliseconds patience);
  ~KeyLock();
  KeyLock(const KeyLock&) = delete;
  KeyLock& operator=(const KeyLock&) = delete;
  State state() const { return state_; }

 private:
  std::filesystem::path file_;
  FileDescriptor descriptor_;
  State state_ = State::unavailable;
};

}  // namespace kdagen::runtime
