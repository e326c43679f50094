// SPDX-License-Identifier: Apache-2.0
// NVRTC by dlopen; declared by hand.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/embedded.h"

namespace kdagen::runtime {

struct NvrtcLibrary {
  std::filesystem::path path;  ///< of the file that was opened
  int major = 0, minor = 0;
  std::string build;  ///< NVRTC does not tell its patch level: the linker's build ID, without one a hash of the file
  std::vector<int> archs;
  struct Functions;
  const Functions* functions = nullptr;
};

/// Opens NVRTC (see find_compiler) once a process and setting of $KDAGEN_NVRTC; ToolchainError with every reason.
const NvrtcLibrary& nvrtc_library();

struct NvrtcOutput {
  bool ok = false;
  std::string image, log;
};

/// Compiles `text`, called `name` in messages, with `headers` as the only files it can include. `ptx` chooses between
/// PTX and the cubin; one of them follows from the options' architecture.
NvrtcOutput run_nvrtc(const std::string& text, const std::string& name, std::span<const EmbeddedFile> headers,
                      const std::vector<std::string>& options, bool ptx);

}  // namespace kdagen::runtime
