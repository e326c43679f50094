// SPDX-License-Identifier: Apache-2.0
#include "tools/fuzz/features.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace kdagen::fuzz {
namespace {

using Json = nlohmann::json;

std::string axes_of(const Json& node) {
  return fmt::format("[{}]", fmt::join(node.value("axes", std::vector<std::string>()), ", "));
}

void add_operation(const Json& node, std::set<std::string>& features) {
  const std::string op = node.at("op");
  std::string text = "op " + op;
  if (op == "cumsum")
    text += std::string(node.value("exclusive", false) ? ", exclusive" : "") +
            (node.value("reverse", false) ? ", reverse" : "");
  if (op == "sum" || op == "max_reduce")
    text += fmt::format(" over {}", fmt::join(node.at("over").get<std::vector<std::string>>(), ", "));
  features.insert(text);
  if (op != "input" && op != "param") return;
  features.insert(op + " " + axes_of(node));
  features.insert(fmt::format("{} {}", op, node.at("dtype").get<std::string>()));
  if (node.value("optional", false)) features.insert("optional " + op);
  if (node.contains("lower") || node.contains("upper")) features.insert("bounded " + op);
}

void add_uses(const Json& graph, std::set<std::string>& features) {
  const Json& nodes = graph.at("nodes");
  std::vector<int> uses(nodes.size(), 0), outputs(nodes.size(), 0);
  int scans[2] = {0, 0};
  for (const Json& node : nodes) {
    for (const int operand : node.value("operands", std::vector<int>())) ++uses[operand];
    if (node.at("op") == "cumsum") ++scans[node.value("reverse", false)];
  }
  for (const Json& output : graph.at("outputs")) {
    const int node = output.at("node");
    features.insert("output " + axes_of(nodes[node]));
    features.insert("output " + output.at("dtype").get<std::string>());
    if (output.contains("unit")) features.insert("an output with a cotangent unit");
    if (output.contains("anchor")) features.insert("an anchored output, " + output.at("anchor").get<std::string>());
    if (nodes[node].at("op") == "input") features.insert("an output that repeats an input");
    if (++outputs[node] > 1) features.insert("two outputs of one value");
  }
  for (size_t i = 0; i < uses.size(); ++i)
    if (const std::string op = nodes[i].at("op"); uses[i] > 2 && op != "constant")
      features.insert(fmt::format("{} used several times", op == "input" || op == "param" ? op : "value"));
  if (scans[0] + scans[1] > 2) features.insert("several scans");
  if (scans[0] && scans[1]) features.insert("scans in both directions");
}

/// Of texts, which the evaluator has none of.
void add_memory(const Sketch& sketch, std::set<std::string>& features) {
  const CallersMemory& memory = sketch.memory;
  if (memory.strides != 0) features.insert(memory.strides % 2 == 0 ? "gaps of 16 bytes" : "gaps of elements");
  if (memory.strides != 0 && sketch.repeats) features.insert("strides of 0");
  if (memory.base_offset != 0) features.insert("tensors off their alignment");
  if (memory.shared) features.insert("outputs in the memory of inputs");
  if (sketch.shape.packed && memory.offsets == runtime::OffsetType::i64) features.insert("64-bit offsets");
}

}  // namespace

std::set<std::string> features_of(const Sketch& sketch) {
  std::set<std::string> features;
  const Json graph = Json::parse(sketch.graph());
  for (const Json& node : graph.at("nodes")) add_operation(node, features);
  add_uses(graph, features);
  for (const auto& [key, value] : sketch.options) {
    const size_t point = key.find('.');
    features.insert(key == "save"                ? "saved values"
                    : point != std::string::npos ? fmt::format("{}.NAME={}", key.substr(0, point), value)
                                                 : key + "=" + value);
  }
  const bool optional = std::any_of(sketch.tensors.begin(), sketch.tensors.end(),
                                    [](const TensorLine& line) { return line.absent.has_value(); });
  if (optional) features.insert(sketch.given_left_out ? "optional tensors left out" : "optional tensors given");
  features.insert(sketch.shape.packed ? "packed sequences" : "batch rows of equal length");
  if (sketch.shape.packed && std::count(sketch.shape.seqlens.begin(), sketch.shape.seqlens.end(), 0))
    features.insert("an empty sequence");
  if (sketch.shape.dead_rows > 0) features.insert("rows after the last sequence");
  add_memory(sketch, features);
  return features;
}

}  // namespace kdagen::fuzz
