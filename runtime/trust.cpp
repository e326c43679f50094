// SPDX-License-Identifier: Apache-2.0
#include "runtime/trust.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace kdagen::runtime {
namespace {

namespace fs = std::filesystem;

/// A group of one, as systems number it that give each user a group.
bool is_own_group(gid_t group) { return group == ::getegid() && group == ::geteuid(); }

bool written_by_others(const struct stat& status) {
  return (status.st_mode & S_IWOTH) || ((status.st_mode & S_IWGRP) && !is_own_group(status.st_gid));
}

/// In a name space root may be shown as another user; whoever has "/" has everything.
bool belongs_to_the_system(const struct stat& status) {
  struct stat root{};
  return status.st_uid == 0 || (::stat("/", &root) == 0 && status.st_uid == root.st_uid);
}

std::string cannot_look(const fs::path& path) {
  return fmt::format("cannot look at {}: {}", path.string(), std::strerror(errno));
}

/// The first complaint of `judge` about the real path's folders, from the root.
template <class Judge>
std::string on_the_way(const fs::path& path, const Judge& judge) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return fmt::format("cannot look at {}: {}", path.string(), error.message());
  fs::path partial;
  for (const fs::path& step : real) {
    partial /= step;
    struct stat status{};
    if (::stat(partial.c_str(), &status) != 0) return cannot_look(partial);
    if (const std::string problem = judge(status, partial.string()); !problem.empty()) return problem;
  }
  return "";
}

}  // namespace

std::string ownership_problem(const struct stat& status, const std::string& name) {
  if (status.st_uid != ::geteuid())
    return fmt::format("{} belongs to another user (id {}), who could plant code in it", name, status.st_uid);
  if (written_by_others(status))
    return fmt::format("other users may write {} (mode {:o}) and could plant code in it; chmod 700 makes it usable",
                       name, status.st_mode & 07777);
  return "";
}

std::string way_problem(const fs::path& folder) {
  return on_the_way(folder, [](const struct stat& status, const std::string& name) -> std::string {
    if (status.st_uid != ::geteuid() && !belongs_to_the_system(status))
      return fmt::format("{} belongs to another user (id {}), who could put another folder in its place", name,
                         status.st_uid);
    if (written_by_others(status) && !(status.st_mode & S_ISVTX))
      return fmt::format("other users may write {} (mode {:o}) and could put another folder in its place", name,
                         status.st_mode & 07777);
    return "";
  });
}

std::string trust_problem(const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  struct stat status{};
  if (error || ::stat(real.c_str(), &status) != 0) return cannot_look(folder);
  if (std::string problem = ownership_problem(status, real.string()); !problem.empty()) return problem;
  return way_problem(real.parent_path());
}

std::string execution_problem(const fs::path& file) {
  bool shared = false;  // everybody may make files in the folder that was looked at last
  return on_the_way(file, [&](const struct stat& status, const std::string& name) -> std::string {
    const bool planted = shared && status.st_uid != ::geteuid() && !belongs_to_the_system(status);
    shared = status.st_mode & S_IWOTH;
    if (planted)
      return fmt::format("{} belongs to another user (id {}), and everybody may put files there", name, status.st_uid);
    if (shared && !(S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX)))
      return fmt::format("everybody may write {} (mode {:o}) and could plant code in it", name, status.st_mode & 07777);
    return "";
  });
}

}  // namespace kdagen::runtime
