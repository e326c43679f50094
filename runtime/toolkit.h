// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <vector>

namespace kdagen::runtime {

/// Roots of CUDA toolkits to look in, existing ones only: beside the nvcc in use, $CUDA_HOME, $CUDA_PATH,
/// /usr/local/cuda, and the one known when kdagen was configured.
std::vector<std::filesystem::path> toolkit_folders();

}  // namespace kdagen::runtime
