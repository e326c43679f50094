// SPDX-License-Identifier: Apache-2.0
// Bytes from outside, by kind, and what kdagen does with each: libFuzzer programs and the suite read them alike.
#pragma once
#include <string>
#include <vector>

namespace kdagen::testing {

struct Reader {
  std::string name;
  /// Reads the bytes and uses what they say. True: accepted; false: refused with an error by blame (exit code 2 or 3).
  /// Anything else is a fault: another exception, a wrong result (std::logic_error), a crash.
  bool (*accepts)(const std::string& bytes);
  /// Good ones, of shipped things, and what once was a fault.
  std::vector<std::string> (*seeds)();
  /// Whether the bytes are JSON, whose values can be changed one by one.
  bool json = false;
  /// Not yet without faults: for libFuzzer only.
  bool open = false;
};

/// The program's: of runtime_readers.cpp (manifest, tuning_store, cache_entry, safetensors), of compiler_readers.cpp
/// (ir, graph) or of cli_readers.cpp (command_line).
const std::vector<Reader>& readers();

}  // namespace kdagen::testing
