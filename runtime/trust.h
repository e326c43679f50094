// SPDX-License-Identifier: Apache-2.0
// Whether what lies somewhere may be executed or believed: nobody but this user and the system's administrator may be
// able to put something else there. Symbolic links count with the folders in which they lie and those they lead over,
// so that a path that passed is used as it is, and still means the same.
#pragma once
#include <filesystem>
#include <string>

#include <sys/stat.h>

namespace kdagen::runtime {

/// Of a file or folder of kdagen's own: another owner, or writable by others (by a group, unless it is the user's own:
/// of the user's number, and without another member by the group database or /etc/passwd). `name` is for the message.
/// Empty when there is none.
std::string ownership_problem(const struct stat& status, const std::string& name);

/// Why others could replace what lies in a folder that holds only files of this user: some folder on the way to it,
/// itself included, belongs to somebody else than root and this user, or others may write it and its sticky bit is not
/// set.
std::string way_problem(const std::filesystem::path& folder);

/// Why nothing may be loaded from the folder: its ownership_problem, or the way_problem of its parent.
std::string trust_problem(const std::filesystem::path& folder);

/// Why a program, library or source that kdagen did not make is not executed: everybody may write it or a folder on the
/// way to it, or it, or a link to it, is another user's in a folder where everybody may put files. Else its owner is
/// the affair of who installed it. It says what would pass.
std::string execution_problem(const std::filesystem::path& file);

/// Why others could put a library into a folder that the loader searches, or make the folder, if it is missing. A
/// relative one lies where the process happens to be, so it must pass for a way_problem.
std::string search_problem(const std::filesystem::path& folder);

}  // namespace kdagen::runtime
