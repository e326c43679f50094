// SPDX-License-Identifier: Apache-2.0
#include "runtime/launcher_header.h"

#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/format.h>

#include "runtime/problem.h"

namespace kdagen::runtime {
namespace {

bool is_word_character(unsigned char c) { return c < 128 && (std::isalnum(c) || c == '_'); }

// Keywords, alternative operators, and the members that the struct has anyway.
const std::set<std::string_view>& taken_names() {
  static const std::set<std::string_view> names{
      "alignas",     "alignof",   "and",        "and_eq",    "asm",      "auto",         "bitand",
      "bitor",       "bool",      "break",      "case",      "catch",    "char",         "char8_t",
      "char16_t",    "char32_t",  "class",      "compl",     "concept",  "const",        "consteval",
      "constexpr",   "constinit", "const_cast", "continue",  "co_await", "co_return",    "co_yield",
      "decltype",    "default",   "delete",     "do",        "double",   "dynamic_cast", "else",
      "enum",        "explicit",  "export",     "extern",    "false",    "float",        "for",
      "friend",      "goto",      "if",         "inline",    "int",      "long",         "mutable",
      "namespace",   "new",       "noexcept",   "not",       "not_eq",   "nullptr",      "operator",
      "or",          "or_eq",     "private",    "protected", "public",   "register",     "reinterpret_cast",
      "requires",    "return",    "short",      "signed",    "sizeof",   "static",       "static_assert",
      "static_cast", "struct",    "switch",     "template",  "this",     "thread_local", "throw",
      "true",        "try",       "typedef",    "typeid",    "typename", "union",        "unsigned",
      "using",       "virtual",   "void",       "volatile",  "wchar_t",  "while",        "xor",
      "xor_eq",      "chunk",     "dim",        "launch",    "assert",   "errno",        "NULL",
      "View",        "Kernel",    "Place",      "tensors",   "kernel",   "problem",      "place"};
  return names;
}

std::string field_name(std::string name, std::set<std::string>& used) {
  for (char& c : name)
    if (!is_word_character(static_cast<unsigned char>(c))) c = '_';
  if (std::isdigit(static_cast<unsigned char>(name[0]))) name = "_" + name;
  // Reserved for the implementation: two underscores in a row, or one before a capital.
  while (name.find("__") != std::string::npos) name.erase(name.find("__"), 1);
  if (name.size() > 1 && name[0] == '_' && std::isupper(static_cast<unsigned char>(name[1]))) name.insert(0, "t");
  while (taken_names().count(name) || used.count(name)) name += name.back() == '_' ? "x" : "_";
  used.insert(name);
  return name;
}

std::string type_name(const std::string& kernel) {
  std::string name;
  bool capital = true;
  for (const char c : kernel) {
    const bool letter = is_word_character(static_cast<unsigned char>(c)) && c != '_';
    if (letter) name += capital ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    capital = !letter;
  }
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || taken_names().count(name))
    name = "Launch" + name;
  return name;
}

// No line of a comment may end in a backslash or break.
std::string comment(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == '\\') c = '?';
  return text;
}

std::string literal(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '?') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::toupper(c); });
  return result;
}

std::string describe(const Manifest& manifest, const TensorInfo& tensor) {
  std::string text = fmt::format("{}, {} {} {}", name_of(tensor.direction), name_of(tensor.role), name_of(tensor.dtype),
                                 shape_letters(manifest, tensor));
  if (tensor.optional) text += ", optional";
  if (!tensor.unit.empty()) text += fmt::format(", handed over as cotangent / {}", tensor.unit);
  if (tensor.anchor_exponent != 0) text += fmt::format(", holds value * 2^{}", tensor.anchor_exponent);
  if (!tensor.anchor_tensor.empty())
    text += fmt::format(", holds value * 2^({}n), n in {} by sub-chunk", tensor.anchor_sign < 0 ? "-" : "",
                        tensor.anchor_tensor);
  if (tensor.subchunk_rows > 0) text += fmt::format(", one row of each {} of a tile", tensor.subchunk_rows);
  if (!tensor.may_alias.empty()) text += fmt::format(", may be the same memory as {}", tensor.may_alias);
  return comment(text);
}

}  // namespace

std::string launcher_header(const Manifest& manifest) {
  std::string fields, list;
  std::set<std::string> used;
  for (const TensorInfo& tensor : manifest.tensors) {
    const std::string name = field_name(tensor.name, used);
    fields += fmt::format("  /// {}\n  View<KDAGEN_{}, {}> {};\n", describe(manifest, tensor),
                          upper(name_of(tensor.dtype)), dimensions(manifest, tensor).size(), name);
    list += fmt::format("        {}.named(\"{}\", place.device),\n", name, literal(tensor.name));
  }
  const std::string type = type_name(manifest.kernel);
  return fmt::format(R"(// SPDX-License-Identifier: Apache-2.0
// Launches {kernel}: the {pass} pass of {spec}, emitted for {arch} with chunk {chunk} and dim {dim}.
// B batch rows, T tokens, H heads, D = {dim} features, C = {chunk} rows a tile; tiles = B * ceil(T / C), or packed
// ceil(T / C) + sequences. Written by kdagen from the manifest.
#pragma once
#include <kdagen/launcher.h>

namespace kdagen::launcher {{

struct {type} {{
  static constexpr int chunk = {chunk}, dim = {dim};

{fields}
  /// Enqueues the launches of `kernel` (this text and manifest, loaded) for these tensors. Failure names what is wrong.
  void launch(const Kernel& kernel, const kdagen_problem& problem, const Place& place = {{}}) const {{
    const std::vector<kdagen_tensor> tensors{{
{list}    }};
    kdagen::launcher::launch(kernel, tensors, problem, place);
  }}
}};

}}  // namespace kdagen::launcher
)",
                     fmt::arg("kernel", comment(manifest.kernel)), fmt::arg("pass", manifest.pass),
                     fmt::arg("spec", comment(manifest.spec)), fmt::arg("arch", comment(manifest.arch)),
                     fmt::arg("chunk", manifest.chunk), fmt::arg("dim", manifest.dim), fmt::arg("type", type),
                     fmt::arg("fields", fields), fmt::arg("list", list));
}

}  // namespace kdagen::runtime
