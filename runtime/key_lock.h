// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <filesystem>

#include "runtime/files.h"

namespace kdagen::runtime {

/// An exclusive lock between processes and threads by a file that exists only while it is held or waited for.
/// When the file system has no locks, or the wait exceeds `patience`, the holder goes on without.
class KeyLock {
 public:
  KeyLock(std::filesystem::path file, std::chrono::milliseconds patience);
  ~KeyLock();
  KeyLock(const KeyLock&) = delete;
  KeyLock& operator=(const KeyLock&) = delete;
  bool held() const { return held_; }

 private:
  std::filesystem::path file_;
  FileDescriptor descriptor_;
  bool held_ = false;
};

}  // namespace kdagen::runtime
