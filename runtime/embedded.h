// SPDX-License-Identifier: Apache-2.0
// Files carried inside the library (see cmake/KdagenEmbed.cmake), so that one static binary works anywhere.
#pragma once
#include <span>
#include <string_view>

namespace kdagen::runtime {

struct EmbeddedFile {
  std::string_view path;  ///< as in an #include: "kdagen/device.cuh"
  std::string_view text;
};

/// Everything of runtime/include: what emitted text, its emulated form and launchers include.
std::span<const EmbeddedFile> runtime_headers();

}  // namespace kdagen::runtime
