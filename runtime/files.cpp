// SPDX-License-Identifier: Apache-2.0
#include "runtime/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "runtime/trust.h"

namespace kdagen::runtime {
namespace {

std::string system_error(std::string_view what) { return fmt::format("{}: {}", what, std::strerror(errno)); }

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

mode_t file_mode_by_umask() {
  // umask can only be read by setting it, which other threads would see; /proc has it without that.
  if (FILE* status = std::fopen("/proc/self/status", "re")) {
    char line[256];
    unsigned mask = 077;
    while (std::fgets(line, sizeof line, status))
      if (std::sscanf(line, "Umask: %o", &mask) == 1) break;
    std::fclose(status);
    return 0666 & ~mask;
  }
  return 0600;
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<std::string> read_file(const std::filesystem::path& path, std::string& error, bool only_own) {
  const auto fail = [&](std::string reason) {
    error = std::move(reason);
    return std::nullopt;
  };
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return fail(std::strerror(errno));
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return fail(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return fail("not a regular file");
  if (only_own && !ownership_problem(status, "").empty()) return fail("another user owns it or may write it");
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(std::strerror(errno));
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  bytes.resize(filled);
  return bytes;
}

std::string write_file_atomically(const std::filesystem::path& path, std::span<const std::string_view> pieces,
                                  bool shared) {
  std::filesystem::path directory = path.parent_path();
  if (directory.empty()) directory = ".";
  // The final name may already be as long as names can be, so the temporary has its own.
  std::string temporary = (directory / ".kdagen-XXXXXX").string();
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return system_error(fmt::format("cannot create a file in {}", directory.string()));
  const auto give_up = [&](std::string_view what) {
    std::string message = system_error(fmt::format("cannot {} {}", what, path.string()));
    ::unlink(temporary.c_str());
    return message;
  };
  for (const std::string_view piece : pieces)
    if (!write_all(file.get(), piece)) return give_up("write");
  if (shared && ::fchmod(file.get(), file_mode_by_umask()) != 0) return give_up("set the mode of");
  if (::fsync(file.get()) != 0) return give_up("sync");
  if (::rename(temporary.c_str(), path.c_str()) != 0) return give_up("replace");
  return "";
}

}  // namespace kdagen::runtime
