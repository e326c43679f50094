// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace kdagen::cli {

/// The SASS of a cubin, by nvdisasm or cuobjdump (PATH, then the toolkits' bin folders). ToolchainError when neither is
/// found or the program refuses the cubin.
std::string disassemble(const std::string& cubin);

}  // namespace kdagen::cli
