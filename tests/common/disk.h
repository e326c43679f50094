// SPDX-License-Identifier: Apache-2.0
// Disks that are full or cannot be written, for the time of a test.
#pragma once
#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "tests/common/scratch.h"

namespace kdagen::testing {

/// Runs `action` in a process that has the mounts which `mounts` makes to itself; false if it may not make them here.
inline bool with_mounts(const std::function<bool()>& mounts, const std::function<void()>& action) {
  constexpr int not_allowed = 77;
  const int code = in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0 || !mounts())
      return not_allowed;
    action();
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  if (code != not_allowed) {
    EXPECT_EQ(code, 0);
  }
  return code != not_allowed;
}

/// With a disk of that size at `place`.
inline bool with_disk(const std::filesystem::path& place, const std::string& size, bool read_only,
                      const std::function<void()>& action) {
  std::filesystem::create_directories(place);
  const std::string options = "size=" + size + ",mode=0700";
  return with_mounts(
      [&] { return ::mount("tmpfs", place.c_str(), "tmpfs", read_only ? MS_RDONLY : 0, options.c_str()) == 0; },
      action);
}

/// Makes the folder and what is in it unwritable, mounts on folders inside excepted. In with_mounts.
inline bool make_read_only(const std::filesystem::path& folder) {
  return ::mount(folder.c_str(), folder.c_str(), "", MS_BIND | MS_REC, nullptr) == 0 &&
         ::mount("", folder.c_str(), "", MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
}

}  // namespace kdagen::testing
