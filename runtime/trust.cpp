// SPDX-License-Identifier: Apache-2.0
#include "runtime/trust.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include <fmt/format.h>

namespace kdagen::runtime {
namespace {

namespace fs = std::filesystem;

/// Whether the group's list and /etc/passwd, whose users have a group each that does not list them, name nobody else.
bool has_no_other_member(gid_t group) {
  std::vector<char> text(1 << 16), user_text(1 << 16);
  struct passwd user{};
  struct passwd* known = nullptr;
  ::getpwuid_r(::geteuid(), &user, user_text.data(), user_text.size(), &known);
  const std::string own_name = known ? known->pw_name : "";
  struct group entry{};
  struct group* listed = nullptr;
  if (::getgrgid_r(group, &entry, text.data(), text.size(), &listed) != 0) return false;
  for (char** member = listed ? listed->gr_mem : nullptr; member && *member; ++member)
    if (own_name != *member) return false;
  const std::unique_ptr<FILE, int (*)(FILE*)> users(std::fopen("/etc/passwd", "re"), std::fclose);
  while (users && ::fgetpwent_r(users.get(), &user, text.data(), text.size(), &known) == 0)
    if (user.pw_gid == group && user.pw_uid != ::geteuid()) return false;
  return true;
}

/// A group of one, as systems number it that give each user a group.
bool is_own_group(gid_t group) { return group == ::getegid() && group == ::geteuid() && has_no_other_member(group); }

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

/// The first complaint of `judge` about what the system comes by when it follows the path, from the root: folders,
/// symbolic links with what they lead over, the file itself. Whoever cannot change any of these cannot change what the
/// path means. `judge` gets whether everybody may make files in the folder where the thing lies.
template <class Judge>
std::string on_the_way(const fs::path& path, const Judge& judge) {
  constexpr int most_links = 40;  // as the system has it
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return fmt::format("cannot look at {}: {}", path.string(), error.message());
  std::deque<fs::path> ahead(absolute.begin(), absolute.end());
  fs::path reached;
  struct stat folder{};
  for (int links = 0; !ahead.empty();) {
    const fs::path step = ahead.front(), next = step == ".." ? reached.parent_path() : reached / step;
    ahead.pop_front();
    if (step.empty() || step == ".") continue;
    struct stat status{};
    if (::lstat(next.c_str(), &status) != 0) return cannot_look(next);
    const bool shared = step != ".." && (folder.st_mode & S_IWOTH);
    if (const std::string problem = judge(status, next.string(), shared); !problem.empty()) return problem;
    if (!S_ISLNK(status.st_mode)) {
      reached = next;
      folder = status;
      continue;
    }
    const fs::path target = fs::read_symlink(next, error);
    if (error || ++links > most_links) return fmt::format("cannot follow the link {}", next.string());
    ahead.insert(ahead.begin(), target.begin(), target.end());
    if (target.is_absolute()) folder = {};
  }
  return "";
}

bool everybody_may_write(const struct stat& status) { return !S_ISLNK(status.st_mode) && (status.st_mode & S_IWOTH); }

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
  return on_the_way(folder, [](const struct stat& status, const std::string& name, bool) -> std::string {
    if (status.st_uid != ::geteuid() && !belongs_to_the_system(status))
      return fmt::format("{} belongs to another user (id {}), who could put another folder in its place", name,
                         status.st_uid);
    if (!S_ISLNK(status.st_mode) && written_by_others(status) && !(status.st_mode & S_ISVTX))
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
  return on_the_way(file, [](const struct stat& status, const std::string& name, bool shared) -> std::string {
    if (shared && status.st_uid != ::geteuid() && !belongs_to_the_system(status))
      return fmt::format(
          "{} belongs to another user (id {}), and everybody may put files there; a copy of your own "
          "passes",
          name, status.st_uid);
    if (everybody_may_write(status) && !(S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX)))
      return fmt::format("everybody may write {} (mode {:o}) and could plant code in it; chmod o-w makes it usable",
                         name, status.st_mode & 07777);
    return "";
  });
}

std::string search_problem(const fs::path& folder) {
  std::error_code error;
  fs::path place = fs::absolute(folder, error);
  // Who may make what is missing, may fill it.
  while (!fs::is_directory(place, error) && place.has_relative_path()) place = place.parent_path();
  std::string problem = folder.is_absolute() ? execution_problem(place) : way_problem(place);
  struct stat status{};
  if (problem.empty() && ::stat(place.c_str(), &status) != 0) return cannot_look(place);
  if (problem.empty() && everybody_may_write(status))
    return fmt::format("everybody may put files into {} (mode {:o})", place.string(), status.st_mode & 07777);
  return problem;
}

}  // namespace kdagen::runtime
