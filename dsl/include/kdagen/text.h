// SPDX-License-Identifier: Apache-2.0
// Text without locale: numbers, nearest names, JSON.
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kdagen::text {

/// Shortest decimal that reads back as the same double.
inline std::string number(double value) {
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, result.ptr);
}

/// The whole of a finite decimal number, or nothing.
inline std::optional<double> parse_number(std::string_view given) {
  double value = 0;
  if (given.starts_with('+')) given.remove_prefix(1);
  const auto result = std::from_chars(given.data(), given.data() + given.size(), value);
  if (result.ec != std::errc() || result.ptr != given.data() + given.size() || !std::isfinite(value)) return {};
  return value;
}

/// The whole of a decimal integer that fits 64 bits, or nothing.
inline std::optional<long long> parse_integer(std::string_view given) {
  long long value = 0;
  const auto result = std::from_chars(given.data(), given.data() + given.size(), value);
  if (result.ec != std::errc() || result.ptr != given.data() + given.size()) return {};
  return value;
}

inline std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() ? "" : std::string(separator)) + part;
  return joined;
}

/// Insertions, deletions and replacements between two words.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

/// " (did you mean NAME?)" for the nearest candidate, if one is near.
inline std::string did_you_mean(const std::string& given, const std::vector<std::string>& candidates) {
  std::size_t best = std::max<std::size_t>(2, given.size() / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : candidates)
    if (const std::size_t distance = edit_distance(given, candidate); distance < best && distance < candidate.size())
      best = distance, nearest = candidate;
  return nearest.empty() ? "" : " (did you mean " + nearest + "?)";
}

/// Whether the bytes are UTF-8 without overlong forms or surrogates.
inline bool is_utf8(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i++]);
    if (lead < 0x80) continue;
    const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || i + more > bytes.size()) return false;
    std::uint32_t point = lead & (0x3f >> more);
    for (int k = 0; k < more; ++k, ++i) {
      const auto next = static_cast<unsigned char>(bytes[i]);
      if ((next & 0xc0) != 0x80) return false;
      point = point << 6 | (next & 0x3f);
    }
    if ((more == 2 && (point < 0x800 || (point >= 0xd800 && point < 0xe000))) ||
        (more == 3 && (point < 0x10000 || point > 0x10ffff)))
      return false;
  }
  return true;
}

/// JSON text built piece by piece; commas are placed by the writer.
class JsonWriter {
 public:
  JsonWriter& open(char bracket) {
    comma();
    json_ += bracket;
    first_ = true;
    return *this;
  }
  JsonWriter& close(char bracket) {
    json_ += bracket;
    first_ = false;
    return *this;
  }
  JsonWriter& key(std::string_view name) {
    string(name);
    json_ += ':';
    first_ = true;
    return *this;
  }
  JsonWriter& string(std::string_view value) {
    static constexpr char hex[] = "0123456789abcdef";
    comma();
    json_ += '"';
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\')
        (json_ += '\\') += c;
      else if (byte < 0x20)
        ((json_ += "\\u00") += hex[byte >> 4]) += hex[byte & 15];
      else
        json_ += c;
    }
    json_ += '"';
    return *this;
  }
  JsonWriter& number(double value) { return raw(text::number(value)); }
  JsonWriter& integer(std::int64_t value) { return raw(std::to_string(value)); }
  JsonWriter& boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonWriter& strings(const std::vector<std::string>& values) {
    open('[');
    for (const std::string& value : values) string(value);
    return close(']');
  }
  /// A value that is JSON already.
  JsonWriter& raw(const std::string& value) {
    comma();
    json_ += value;
    return *this;
  }
  /// A line break before the next element, for people who read the bytes.
  JsonWriter& line() {
    comma();
    first_ = true;
    json_ += '\n';
    return *this;
  }
  std::string take() { return std::move(json_); }

 private:
  void comma() {
    if (!first_) json_ += ',';
    first_ = false;
  }

  std::string json_;
  bool first_ = true;
};

}  // namespace kdagen::text
