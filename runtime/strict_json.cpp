// SPDX-License-Identifier: Apache-2.0
#include "runtime/strict_json.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

namespace kdagen::runtime {

using nlohmann::json;

json parse_strict_json(std::string_view text, std::string_view what) {
  constexpr int max_depth = 64;
  std::vector<std::unordered_set<std::string>> open_objects;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > max_depth) throw UsageError(fmt::format("{}: nested deeper than {} levels", what, max_depth));
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key && !open_objects.back().insert(parsed.get<std::string>()).second)
      throw UsageError(fmt::format("{}: the key \"{}\" appears twice in one object", what, parsed.get<std::string>()));
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& error) {
    throw UsageError(fmt::format("{}: not valid JSON: {}", what, error.what()));
  }
}

bool JsonField::has(std::string_view key) const { return value_->is_object() && value_->contains(key); }

JsonField JsonField::at(std::string_view key) const {
  if (!value_->is_object()) fail(fmt::format("expected an object, found {}", value_->type_name()));
  const auto found = value_->find(key);
  if (found == value_->end()) fail(fmt::format("the field \"{}\" is missing", key));
  return JsonField(*found, fmt::format("{}.{}", path_, key));
}

std::vector<JsonField> JsonField::items() const {
  if (!value_->is_array()) fail(fmt::format("expected an array, found {}", value_->type_name()));
  std::vector<JsonField> fields;
  fields.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) fields.emplace_back((*value_)[i], fmt::format("{}[{}]", path_, i));
  return fields;
}

void JsonField::only(std::initializer_list<std::string_view> known) const {
  if (!value_->is_object()) fail(fmt::format("expected an object, found {}", value_->type_name()));
  for (const auto& member : value_->items())
    if (std::find(known.begin(), known.end(), member.key()) == known.end())
      fail(fmt::format("unknown field \"{}\"", member.key()));
}

const std::string& JsonField::string() const {
  if (!value_->is_string()) fail(fmt::format("expected a string, found {}", value_->type_name()));
  return value_->get_ref<const std::string&>();
}

bool JsonField::boolean() const {
  if (!value_->is_boolean()) fail(fmt::format("expected true or false, found {}", value_->type_name()));
  return value_->get<bool>();
}

std::int64_t JsonField::integer(std::int64_t low, std::int64_t high) const {
  if (!value_->is_number_integer()) fail(fmt::format("expected an integer, found {}", value_->type_name()));
  const bool too_big =
      value_->is_number_unsigned() &&
      value_->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::int64_t number = too_big ? std::numeric_limits<std::int64_t>::max() : value_->get<std::int64_t>();
  if (too_big || number < low || number > high) fail(fmt::format("{} is outside {}..{}", value_->dump(), low, high));
  return number;
}

const std::string& JsonField::name() const {
  const std::string& text = string();
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (text.empty() || text.size() > 256 || std::any_of(text.begin(), text.end(), is_control))
    fail("expected a name of 1 to 256 bytes without control characters");
  return text;
}

const std::string& JsonField::identifier() const {
  const std::string& text = name();
  const auto letter = [](unsigned char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto letter_or_digit = [&](unsigned char c) { return letter(c) || (c >= '0' && c <= '9'); };
  if (!letter(text[0]) || !std::all_of(text.begin(), text.end(), letter_or_digit))
    fail(fmt::format("\"{}\" is not a C identifier", text));
  return text;
}

}  // namespace kdagen::runtime
