// SPDX-License-Identifier: Apache-2.0
// Folders and programs with the modes that decide who is trusted.
#pragma once
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/warn.h"
#include "tests/common/scratch.h"

namespace kdagen::testing {

/// Another user than any who runs the tests.
constexpr unsigned stranger = 12345;

class TrustedPlaces : public ::testing::Test {
 protected:
  TrustedPlaces() {
    runtime::set_warning_sink([this](const std::string& message) { warnings.push_back(message); });
  }
  ~TrustedPlaces() override { runtime::set_warning_sink({}); }

  std::filesystem::path folder(const std::string& name, mode_t mode) const {
    const std::filesystem::path made = place.path() / name;
    std::filesystem::create_directories(made);
    EXPECT_EQ(::chmod(made.c_str(), mode), 0);
    return made;
  }
  static std::filesystem::path program(const std::filesystem::path& file, const std::string& script = "exit 0\n") {
    spill(file, "#!/bin/sh\n" + script);
    EXPECT_EQ(::chmod(file.c_str(), 0755), 0);
    return file;
  }

  Scratch place = scratch();
  std::vector<std::string> warnings;
};

}  // namespace kdagen::testing
