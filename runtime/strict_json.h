// SPDX-License-Identifier: Apache-2.0
// JSON read from outside: bounded depth, no duplicate keys, and every complaint names the field by its path.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kdagen/error.h"

namespace kdagen::runtime {

/// Parses `text`; UsageError starting with `what` on malformed JSON, nesting deeper than 64, or a repeated key.
nlohmann::json parse_strict_json(std::string_view text, std::string_view what);

/// A JSON value with the path that leads to it ("manifest.tensors[2].dtype"). Every accessor throws UsageError naming
/// it.
class JsonField {
 public:
  JsonField(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& path() const { return path_; }

  [[noreturn]] void fail(const std::string& problem) const { throw UsageError(path_ + ": " + problem); }

  bool has(std::string_view key) const;
  /// Member `key` of an object; missing or not an object is an error.
  JsonField at(std::string_view key) const;
  /// Elements of an array.
  std::vector<JsonField> items() const;
  /// Refuses members outside `known`.
  void only(std::initializer_list<std::string_view> known) const;

  const std::string& string() const;
  bool boolean() const;
  /// An integer in [low, high]; floats are refused even when whole.
  std::int64_t integer(std::int64_t low, std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;
  /// A non-empty string without control characters, at most 256 bytes.
  const std::string& name() const;
  /// A name that is a C identifier.
  const std::string& identifier() const;

 private:
  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace kdagen::runtime
