// SPDX-License-Identifier: Apache-2.0
// Where files that kdagen makes for itself go, and private folders for a compiler's work.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

namespace kdagen::runtime {

/// A fresh folder (mode 0700), removed with its contents at the end of the scope, unless in a forked child.
class TemporaryDirectory {
 public:
  TemporaryDirectory() = default;
  /// Made in the first of `parents`, $TMPDIR, /tmp, /var/tmp that works, one with 32 MiB of room if any has. Else
  /// empty. A place where others could put a folder of theirs in its stead is passed over with a warning.
  explicit TemporaryDirectory(const std::vector<std::filesystem::path>& parents);
  TemporaryDirectory(TemporaryDirectory&& other) noexcept { *this = std::move(other); }
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept;
  ~TemporaryDirectory();
  const std::filesystem::path& path() const { return path_; }
  explicit operator bool() const { return !path_.empty(); }

 private:
  std::filesystem::path path_;
  pid_t owner_ = 0;
};

struct CacheDirectory {
  std::filesystem::path path;    ///< absolute; empty when no place at all can be written
  std::string origin;            ///< the variable that named it, or "private"
  bool persistent = false;       ///< survives the process
  std::string problem;           ///< why the named folder is not used
  TemporaryDirectory temporary;  ///< holds `path` when not persistent
};

/// $KDAGEN_CACHE_DIR, else $XDG_CACHE_HOME/kdagen, else $HOME/.cache/kdagen, created with mode 0700; its real path. If
/// that cannot be written, or has a trust_problem (trust.h): one warning and a private folder for this process.
CacheDirectory choose_cache_directory();

/// Makes the folder (mode 0700) in a trusted one unless it is there; what is there must be a folder and no link, and
/// nobody else's. Returns what is wrong.
std::string make_private_folder(const std::filesystem::path& folder);

}  // namespace kdagen::runtime
