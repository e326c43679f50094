// SPDX-License-Identifier: Apache-2.0
#include "tools/line_markers.h"

#include <algorithm>

namespace kdagen {
namespace {

/// What clang enters, too, and is no file.
bool is_of_the_compiler(const std::string& name) { return name == "<built-in>" || name == "<command line>"; }

bool is_octal(char c) { return c >= '0' && c <= '7'; }

/// Takes the string literal off the front, whose backslashes stand before a quote, a backslash, a byte in octal, or the
/// letter of a line's end (g++ writes it so).
std::string take_name(std::string_view& rest) {
  std::string name;
  rest.remove_prefix(1);
  while (!rest.empty() && rest.front() != '"') {
    std::size_t length = 1;
    char c = rest.front();
    if (c == '\\' && rest.size() > 1) {
      c = rest[1] == 'n' ? '\n' : rest[1];
      length = 2;
      if (rest.size() > 3 && is_octal(rest[1]) && is_octal(rest[2]) && is_octal(rest[3])) {
        c = static_cast<char>((rest[1] - '0') * 64 + (rest[2] - '0') * 8 + (rest[3] - '0'));
        length = 4;
      }
    }
    name += c;
    rest.remove_prefix(length);
  }
  return name;
}

}  // namespace

std::set<std::string> entered_files(std::string_view text) {
  std::set<std::string> files;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t quote = line.find('"');
    if (!line.starts_with("# ") || quote == std::string_view::npos ||
        line.substr(2, quote - 2).find_first_not_of("0123456789 ") != std::string_view::npos)
      continue;
    line.remove_prefix(quote);
    std::string name = take_name(line);
    if (line.starts_with("\" 1") && !is_of_the_compiler(name)) files.insert(std::move(name));
  }
  return files;
}

}  // namespace kdagen
