// SPDX-License-Identifier: Apache-2.0
// Libraries of others, by dlopen.
#pragma once
#include <string>

namespace kdagen::runtime {

/// Loads a library that may be executed (trust.h); null with the reason. `name` is a path, or without a slash a name
/// that the loader looks up: then no folder that LD_LIBRARY_PATH makes it search may be one that others can fill, since
/// what the library loads by name in turn is looked up there too.
void* open_library(const std::string& name, std::string& reason);

/// The build ID that the linker has put into the loaded library with this address, in hexadecimal digits; empty if it
/// has none. What a library is without reading all of it, which for NVRTC would be a hundred megabytes a process.
std::string build_of(const void* address);

}  // namespace kdagen::runtime
