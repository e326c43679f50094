// SPDX-License-Identifier: Apache-2.0
// Files read and written whole. Writers never leave a half-written file under its final name.
#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace kdagen::runtime {

/// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// The bytes of a regular file, or nothing with the reason in `error`. With `only_own`, also not if it has an
/// ownership_problem (trust.h).
std::optional<std::string> read_file(const std::filesystem::path& path, std::string& error, bool only_own = false);

/// Writes the pieces one after another to a private temporary (mode 0600, made 0666 & ~umask when `shared`) beside
/// `path`, syncs it and renames it. Returns an empty string, or what failed; the temporary is then removed.
std::string write_file_atomically(const std::filesystem::path& path, std::span<const std::string_view> pieces,
                                  bool shared);

}  // namespace kdagen::runtime
