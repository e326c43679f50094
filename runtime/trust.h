// SPDX-License-Identifier: Apache-2.0
// Whether what lies somewhere may be executed or believed: nobody but this user and the system's administrator may be
// able to put something else there. Symbolic links are followed to where they lead.
#pragma once
#include <filesystem>
#include <string>

#include <sys/stat.h>

namespace kdagen::runtime {

/// Of a file or folder of kdagen's own: another owner, or writable by others (by a group, unless it is the user's own
/// group of the same number). `name` is for the message. Empty when there is none.
std::string ownership_problem(const struct stat& status, const std::string& name);

/// Why others could replace what lies in a folder that holds only files of this user: some folder on the way to it,
/// itself included, belongs to somebody else than root and this user, or others may write it and its sticky bit is not
/// set.
std::string way_problem(const std::filesystem::path& folder);

/// Why nothing may be loaded from the folder: its ownership_problem, or the way_problem of its parent.
std::string trust_problem(const std::filesystem::path& folder);

/// Why a program or library that kdagen did not make is not executed: everybody may write it or a folder on the way to
/// it, or it is another user's in a folder where everybody may put files. Else its owner is the affair of who installed
/// it.
std::string execution_problem(const std::filesystem::path& file);

}  // namespace kdagen::runtime
