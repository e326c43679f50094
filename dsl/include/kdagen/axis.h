// SPDX-License-Identifier: Apache-2.0
// Axes, element types and source locations: what values are made over and where they were written.
#pragma once
#include <algorithm>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "kdagen/error.h"

namespace kdagen {

using Location = std::source_location;

/// Throws SpecError "file:line: error: message".
[[noreturn]] inline void spec_error(const Location& where, const std::string& message) {
  throw SpecError(std::string(where.file_name()) + ":" + std::to_string(where.line()) + ": error: " + message);
}

/// Storage types. All arithmetic is float32 unless `round` says otherwise.
enum class DType { bf16, fp16, f32 };
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType fp16 = DType::fp16;
inline constexpr DType f32 = DType::f32;

inline const char* dtype_name(DType dtype) {
  return dtype == DType::bf16 ? "bf16" : dtype == DType::fp16 ? "fp16" : "f32";
}

/// What an axis stands for. The order of the enumerators is the canonical order of a value's axes.
enum class Role { rows, head, feature };

inline const char* role_name(Role role) {
  return role == Role::rows ? "rows" : role == Role::head ? "head" : "feature";
}

/// A named axis of one spec, made by Spec::rows, Spec::heads or Spec::features.
class Axis {
 public:
  Axis() = default;
  Axis(std::string name, Role role, int extent, const void* owner)
      : name_(std::move(name)), role_(role), extent_(extent), owner_(owner) {}

  const std::string& name() const { return name_; }
  Role role() const { return role_; }
  /// Rows: the chunk (a sequence's last tile may have fewer). Features: the dim. Heads: 0, known at launch only.
  int extent() const { return extent_; }
  /// Identity of the spec that made it.
  const void* owner() const { return owner_; }
  bool operator==(const Axis& other) const { return owner_ == other.owner_ && name_ == other.name_; }

 private:
  std::string name_;
  Role role_ = Role::rows;
  int extent_ = 0;
  const void* owner_ = nullptr;
};

using Axes = std::vector<Axis>;

inline bool contains(const Axes& axes, const Axis& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

inline bool has_role(const Axes& axes, Role role) {
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.role() == role; });
}

/// "{t, h, d}", for messages.
inline std::string to_string(const Axes& axes) {
  std::string text = "{";
  for (const Axis& axis : axes) text += (text.size() > 1 ? ", " : "") + axis.name();
  return text + "}";
}

/// Union of two axis lists in canonical order: rows, head, feature.
inline Axes axis_union(Axes left, const Axes& right) {
  for (const Axis& axis : right)
    if (!contains(left, axis)) left.push_back(axis);
  std::sort(left.begin(), left.end(), [](const Axis& a, const Axis& b) { return a.role() < b.role(); });
  return left;
}

/// Names are C identifiers that do not start with an underscore (those are the compiler's).
/// C++ keywords are fine: the emitter renames them.
inline bool is_identifier(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  auto tail = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), tail);
}

inline void require_identifier(std::string_view what, std::string_view name, const Location& where) {
  if (!is_identifier(name))
    spec_error(where, std::string(what) + " \"" + std::string(name) +
                          "\" is not an identifier; start with a letter and go on with letters, digits or _");
}

}  // namespace kdagen
