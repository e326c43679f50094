// SPDX-License-Identifier: Apache-2.0
// Errors by blame. Each message says what is wrong and what would pass.
#pragma once
#include <stdexcept>
#include <string>

namespace kdagen {

/// Base of every error kdagen throws; `exit_code` is what the command line returns for it.
class Error : public std::runtime_error {
 public:
  Error(const std::string& message, int exit_code) : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// The spec is at fault; the message starts with "file:line: error:".
class SpecError : public Error {
 public:
  explicit SpecError(const std::string& message) : Error(message, 2) {}
};

/// An argument, option, or input tensor is at fault.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(message, 2) {}
};

/// A compiler, driver or device is missing or failed.
class ToolchainError : public Error {
 public:
  explicit ToolchainError(const std::string& message) : Error(message, 3) {}
};

/// A check or proof did not hold.
class CheckError : public Error {
 public:
  explicit CheckError(const std::string& message) : Error(message, 1) {}
};

/// kdagen itself is at fault.
class KdagenBug : public Error {
 public:
  explicit KdagenBug(const std::string& message) : Error("internal error: " + message + " (please report this)", 70) {}
};

}  // namespace kdagen
