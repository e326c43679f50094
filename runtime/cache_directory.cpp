// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "runtime/files.h"
#include "runtime/process.h"
#include "runtime/trust.h"
#include "runtime/warn.h"

namespace kdagen::runtime {
namespace {

// A full disk still takes folders, so a file of the size of a compiler's is tried.
bool has_room(const std::filesystem::path& folder) {
  const std::string bytes(64 << 10, 'x');
  const std::string_view pieces[] = {bytes};
  const std::filesystem::path file = folder / "room";
  if (!write_file_atomically(file, pieces, false).empty()) return false;
  ::unlink(file.c_str());
  return true;
}

std::filesystem::path make_temporary_in(const std::filesystem::path& parent) {
  std::string name = (parent / "kdagen-XXXXXX").string();
  if (!::mkdtemp(name.data())) return {};
  if (has_room(name)) return name;
  ::rmdir(name.c_str());
  return {};
}

// mkdir -p with mode 0700 for what is missing.
std::string make_folders(const std::filesystem::path& folder) {
  std::filesystem::path partial;
  for (const std::filesystem::path& step : folder) {
    partial /= step;
    if (::mkdir(partial.c_str(), 0700) != 0 && errno != EEXIST) {
      const int error = errno;
      std::error_code ignored;  // a read-only file system answers EROFS for a folder that exists, too
      if (!std::filesystem::is_directory(partial, ignored))
        return fmt::format("cannot create {}: {}", partial.string(), std::strerror(error));
    }
  }
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return fmt::format("{} is not a folder", folder.string());
  return "";
}

std::string write_problem(const std::filesystem::path& folder) {
  std::string name = (folder / ".kdagen-XXXXXX").string();
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return fmt::format("cannot write in {}: {}", folder.string(), std::strerror(errno));
  ::close(file);
  ::unlink(name.c_str());
  return "";
}

/// For what a compiler writes beside its result.
bool is_spacious(const std::filesystem::path& place) {
  constexpr std::uintmax_t enough = 32 << 20;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(place, error);
  return !error && space.available >= enough;
}

struct Choice {
  std::filesystem::path path;
  std::string origin;
};

Choice named_folder() {
  const std::string own = environment_variable("KDAGEN_CACHE_DIR"), xdg = environment_variable("XDG_CACHE_HOME"),
                    home = environment_variable("HOME");
  if (!own.empty()) {
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(own, error);
    return {error ? std::filesystem::path(own) : absolute, "KDAGEN_CACHE_DIR"};
  }
  if (!xdg.empty() && xdg[0] == '/') return {std::filesystem::path(xdg) / "kdagen", "XDG_CACHE_HOME"};
  if (!home.empty() && home[0] == '/') return {std::filesystem::path(home) / ".cache" / "kdagen", "HOME"};
  return {};
}

}  // namespace

TemporaryDirectory::TemporaryDirectory(const std::vector<std::filesystem::path>& parents) : owner_(::getpid()) {
  std::vector<std::filesystem::path> places = parents;
  const std::string chosen = environment_variable("TMPDIR");
  if (!chosen.empty() && chosen[0] == '/') places.push_back(chosen);
  places.insert(places.end(), {"/tmp", "/var/tmp"});
  for (const bool spacious_only : {true, false})
    for (const std::filesystem::path& place : places) {
      std::error_code error;
      const std::filesystem::path real = std::filesystem::canonical(place, error);
      if (error || (spacious_only && !is_spacious(real))) continue;
      if (const std::string problem = way_problem(real); !problem.empty()) {
        warn_once(fmt::format("no temporary files are put into {}: {}", place.string(), problem));
        continue;
      }
      path_ = make_temporary_in(real);
      if (!path_.empty()) return;
    }
}

TemporaryDirectory& TemporaryDirectory::operator=(TemporaryDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(owner_, other.owner_);
  return *this;
}

TemporaryDirectory::~TemporaryDirectory() {
  if (path_.empty() || owner_ != ::getpid()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string make_private_folder(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return "";
  const int failure = errno;  // a read-only file system may answer EROFS for a folder that exists
  struct stat status{};
  if (::lstat(folder.c_str(), &status) != 0)
    return fmt::format("cannot create {}: {}", folder.string(), std::strerror(failure));
  if (!S_ISDIR(status.st_mode)) return fmt::format("{} is not a folder", folder.string());
  return ownership_problem(status, folder.string());
}

CacheDirectory choose_cache_directory() {
  CacheDirectory directory;
  const Choice choice = named_folder();
  directory.origin = choice.origin;
  directory.path = choice.path;
  if (choice.path.empty()) directory.problem = "neither KDAGEN_CACHE_DIR, XDG_CACHE_HOME nor HOME names a folder";
  if (directory.problem.empty()) directory.problem = make_folders(choice.path);
  // The real path: a link on the way could lead elsewhere later.
  std::error_code error;
  if (directory.problem.empty()) directory.path = std::filesystem::canonical(choice.path, error);
  if (directory.problem.empty()) directory.problem = trust_problem(directory.path);
  if (directory.problem.empty()) directory.problem = write_problem(directory.path);
  if (directory.problem.empty()) {
    directory.persistent = true;
    return directory;
  }
  warn_once(
      fmt::format("no cache is kept: {}. Set KDAGEN_CACHE_DIR to a folder of your own to keep one", directory.problem));
  directory.origin = "private";
  directory.temporary = TemporaryDirectory(std::vector<std::filesystem::path>{});
  directory.path = directory.temporary.path();
  return directory;
}

}  // namespace kdagen::runtime
