// SPDX-License-Identifier: Apache-2.0
#include "codegen/options.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kdagen/error.h"

namespace kdagen {
namespace {

template <typename Enum>
using Names = std::vector<std::pair<std::string, Enum>>;

const Names<Layout> layouts = {{"bthd", Layout::bthd}, {"htd", Layout::htd}};
const Names<UpstreamLayout> upstream_layouts = {{"rows", UpstreamLayout::rows}, {"tile", UpstreamLayout::tile}};
const Names<Upstream> upstreams = {{"f32", Upstream::f32}, {"bf16", Upstream::bf16}, {"fp16row", Upstream::fp16row}};
const Names<Operands> operand_rules = {
    {"exact", Operands::exact}, {"rounded", Operands::rounded}, {"by_out", Operands::by_out}};
const Names<ScanKind> scans = {
    {"auto", ScanKind::automatic}, {"float", ScanKind::floating}, {"fixed", ScanKind::fixed}};
const Names<Arithmetic> arithmetics = {{"f64", Arithmetic::f64}, {"f32", Arithmetic::f32}};
const Names<std::string> gradient_types = {{"bf16", "bf16"}, {"fp16", "fp16"}, {"f32", "f32"}};

template <typename Enum>
Enum choose(const std::string& key, const std::string& value, const Names<Enum>& names) {
  std::vector<std::string> passing;
  for (const auto& [name, result] : names) {
    if (name == value) return result;
    passing.push_back(name);
  }
  throw UsageError(fmt::format("option {}={}: pass one of {}", key, value, fmt::join(passing, ", ")));
}

template <typename Enum>
std::string name_of(Enum value, const Names<Enum>& names) {
  for (const auto& [name, known] : names)
    if (known == value) return name;
  return "";
}

std::vector<std::string> split_names(const std::string& key, const std::string& value) {
  std::vector<std::string> names;
  for (size_t start = 0; start <= value.size();) {
    size_t end = std::min(value.find(',', start), value.size());
    std::string name = value.substr(start, end - start);
    if (name.empty())
      throw UsageError(fmt::format("option {}={}: an empty name; pass NAME,NAME,... or none", key, value));
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw UsageError(fmt::format("option {}={}: {} is named twice", key, value, name));
    names.push_back(name);
    start = end + 1;
  }
  return names;
}

/// Whether the option was the compiler's.
bool take(CompileOptions& result, const std::string& key, const std::string& value) {
  const std::string upstream_prefix = "upstream.";
  if (key == "grads")
    result.grads = choose(key, value, gradient_types);
  else if (key == "layout")
    result.layout = choose(key, value, layouts);
  else if (key == "upstream")
    result.upstream = choose(key, value, upstreams);
  else if (key == "upstream_layout")
    result.upstream_layout = choose(key, value, upstream_layouts);
  else if (key == "operands")
    result.operands = choose(key, value, operand_rules);
  else if (key == "scan")
    result.scan = choose(key, value, scans);
  else if (key == "arithmetic")
    result.arithmetic = choose(key, value, arithmetics);
  else if (key == "schedule" && value.empty())
    throw UsageError("option schedule=: pass default, baseline, tuned or KEY=V,KEY=V,...");
  else if (key == "schedule")
    result.schedule = value;
  else if (key == "save")
    result.save = value == "none" ? std::vector<std::string>() : split_names(key, value);
  else if (key.starts_with(upstream_prefix)) {
    std::string output = key.substr(upstream_prefix.size());
    if (output.empty()) throw UsageError("option upstream.=" + value + ": name an output, as in upstream.NAME=bf16");
    result.upstream_of[output] = choose(key, value, upstreams);
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::map<std::string, std::string> CompileOptions::resolved() const {
  std::map<std::string, std::string> result = {
      {"grads", grads},
      {"layout", name_of(layout, layouts)},
      {"upstream", name_of(upstream, upstreams)},
      {"upstream_layout", name_of(upstream_layout, upstream_layouts)},
      {"operands", name_of(operands, operand_rules)},
      {"scan", name_of(scan, scans)},
      {"schedule", schedule},
      {"save", save.empty() ? "none" : fmt::format("{}", fmt::join(save, ","))},
  };
  for (const auto& [output, type] : upstream_of) result["upstream." + output] = name_of(type, upstreams);
  return result;
}

CompileOptions take_compile_options(std::map<std::string, std::string>& options) {
  CompileOptions result;
  std::erase_if(options, [&](const auto& option) { return take(result, option.first, option.second); });
  return result;
}

}  // namespace kdagen
