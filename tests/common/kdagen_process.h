// SPDX-License-Identifier: Apache-2.0
// The built kdagen, driven as a user's script drives it.
#pragma once
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/process.h"
#include "tests/common/scratch.h"

namespace kdagen::testing {

struct Outcome {
  int code = 0;
  std::string out, err;
};

using Environment = std::map<std::string, std::string>;

/// Runs kdagen with these arguments; `environment` is added to the caller's (an empty value removes a variable).
inline Outcome kdagen(const std::vector<std::string>& arguments, Environment environment = {}) {
  const Scratch folder = scratch();
  const std::string err = (folder.path() / "stderr").string();
  environment["KDAGEN_TEST_STDERR"] = err;
  std::vector<std::string> argv{"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>\"$KDAGEN_TEST_STDERR\"", KDAGEN_BINARY};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const runtime::ProcessResult result = runtime::run_process(argv, {{}, environment});
  return {result.exit_code, result.output, slurp(err)};
}

/// Names of the files in a folder, in order.
inline std::vector<std::string> listing(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace kdagen::testing
