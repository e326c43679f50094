// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "runtime/manifest.h"

namespace kdagen::runtime {

/// A C++17 header with a struct for the manifest's kernel: a typed field a tensor, with its shape in a comment, and
/// launch(), which calls the C API (<kdagen/launcher.h>). Names that C++ cannot use get an underscore; the same
/// manifest gives the same bytes.
std::string launcher_header(const Manifest& manifest);

}  // namespace kdagen::runtime
