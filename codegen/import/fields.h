// SPDX-License-Identifier: Apache-2.0
// Checked access to the members of a JSON object: whatever the bytes hold, the answer is a value of the right kind or a
// UsageError that says where and what.
#pragma once
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kdagen/error.h"

namespace kdagen {

/// For a comment of one line: control characters are spaces, and no backslash at the end takes the next line into it.
inline std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  while (!text.empty() && (text.back() == '\\' || text.back() == ' ')) text.pop_back();
  return text;
}

class Fields {
 public:
  /// `where` names the object in messages: "node 7", "output y".
  Fields(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) damaged("is not an object");
  }

  bool has(const char* key) const { return object_.contains(key); }
  std::string text(const char* key) const {
    const auto& value = member(key);
    if (!value.is_string()) damaged(fmt::format("\"{}\" is not a string", key));
    return value.get<std::string>();
  }
  std::string text_or(const char* key, const std::string& otherwise) const { return has(key) ? text(key) : otherwise; }
  double number(const char* key) const {
    const auto& value = member(key);
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      damaged(fmt::format("\"{}\" is not a finite number", key));
    return value.get<double>();
  }
  std::optional<double> optional_number(const char* key) const {
    return has(key) ? std::optional(number(key)) : std::nullopt;
  }
  int64_t integer(const char* key, int64_t lowest, int64_t highest) const {
    const auto& value = member(key);
    // an unsigned number above int64's range would wrap
    bool fits =
        value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t(INT64_MAX));
    if (!fits || value.get<int64_t>() < lowest || value.get<int64_t>() > highest)
      damaged(fmt::format("\"{}\" is not an integer from {} to {}", key, lowest, highest));
    return value.get<int64_t>();
  }
  bool boolean_or(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!member(key).is_boolean()) damaged(fmt::format("\"{}\" is not true or false", key));
    return member(key).get<bool>();
  }
  const nlohmann::json& list(const char* key) const {
    const auto& value = member(key);
    if (!value.is_array()) damaged(fmt::format("\"{}\" is not a list", key));
    return value;
  }
  /// A missing list is an empty one.
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> result;
    if (!has(key)) return result;
    for (const auto& entry : list(key)) {
      if (!entry.is_string()) damaged(fmt::format("\"{}\" holds something other than strings", key));
      result.push_back(entry.get<std::string>());
    }
    return result;
  }
  [[noreturn]] void damaged(const std::string& what) const {
    throw UsageError("damaged graph: " + where_ + " " + what + "; make it again with this version's headers");
  }

 private:
  const nlohmann::json& member(const char* key) const {
    auto it = object_.find(key);
    if (it == object_.end()) damaged(fmt::format("lacks \"{}\"", key));
    return *it;
  }
  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace kdagen
