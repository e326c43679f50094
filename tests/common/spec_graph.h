// SPDX-License-Identifier: Apache-2.0
// A spec's graph read back from its JSON, as formulas that a test can compare with a line of mathematics.
#pragma once
#include <functional>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "kdagen/kdagen.h"

namespace kdagen::test {

using Json = nlohmann::json;

class Graph {
 public:
  explicit Graph(const std::string& bytes) : json(Json::parse(bytes)) {}

  /// The formula of an output or a named value; other named values in it appear by name.
  std::string formula(const std::string& name) const {
    const Json& node = json["nodes"][id(name)];
    return text(node);
  }
  const Json& output(const std::string& name) const {
    for (const Json& output : json["outputs"])
      if (output["name"] == name) return output;
    throw std::out_of_range("no output " + name);
  }
  /// The node of a named value, input or param; of an output if no value has the name.
  const Json& node(const std::string& name) const { return json["nodes"][id(name)]; }
  const Json& option(const std::string& name) const {
    for (const Json& option : json["options"])
      if (option["name"] == name) return option;
    throw std::out_of_range("no option " + name);
  }
  /// "ln2", or "" for a plain cotangent.
  std::string unit(const std::string& output_name) const {
    const Json& found = output(output_name);
    return found.contains("unit") ? text(json["nodes"][found["unit"].get<int>()]) : "";
  }
  std::string output_names() const {
    std::string names;
    for (const Json& output : json["outputs"]) names += (names.empty() ? "" : " ") + output["name"].get<std::string>();
    return names;
  }
  std::string names_of(const std::string& op) const {
    std::string names;
    for (const Json& node : json["nodes"])
      if (node["op"] == op) names += (names.empty() ? "" : " ") + node["name"].get<std::string>();
    return names;
  }

  Json json;

 private:
  int id(const std::string& name) const {
    for (std::size_t i = 0; i < json["nodes"].size(); ++i)
      if (json["nodes"][i].value("name", "") == name) return static_cast<int>(i);
    return output(name)["node"];
  }

  std::string operand(const Json& node, int position) const {
    const Json& operand = json["nodes"][node["operands"][position].get<int>()];
    return operand.contains("name") ? operand["name"].get<std::string>() : text(operand);
  }

  static std::string constant(const Json& node) {
    std::string product;
    const double coefficient = node["coefficient"];
    if (coefficient != 1 || node["symbols"].empty()) product = kdagen::text::number(coefficient);
    for (const Json& symbol : node["symbols"]) {
      product += (product.empty() ? "" : "*") + symbol["name"].get<std::string>();
      if (symbol["power"] != 1) product += "^" + std::to_string(symbol["power"].get<int>());
    }
    return product;
  }

  std::string text(const Json& node) const {
    static const std::map<std::string, std::string> infix = {
        {"add", " + "}, {"sub", " - "}, {"mul", " * "}, {"div", " / "}};
    const std::string op = node["op"];
    if (op == "constant") return constant(node);
    if (op == "input" || op == "param") return node["name"];
    if (const auto found = infix.find(op); found != infix.end())
      return "(" + operand(node, 0) + found->second + operand(node, 1) + ")";
    std::string arguments;
    for (std::size_t i = 0; i < node.value("operands", Json::array()).size(); ++i)
      arguments += (i ? ", " : "") + operand(node, static_cast<int>(i));
    std::string over;
    if (node.contains("over")) over = node["over"].is_string() ? node["over"].get<std::string>() : node["over"].dump();
    if (node.value("exclusive", false)) over += " exclusive";
    if (node.value("reverse", false)) over += " reverse";
    return op + (over.empty() ? "" : "[" + over + "]") + "(" + arguments + ")";
  }
};

/// The graph of a spec written in the test: `body` gets the spec and its axes t, h, d.
using Body = std::function<void(Spec&, const Options&, Axis, Axis, Axis)>;

inline std::string graph_of(const Body& body, const Options::Values& values = {},
                            const Location& where = Location::current()) {
  const Options o(values);
  Spec s("sample", "", o, where);
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  body(s, o, t, h, d);
  return s.graph();
}

}  // namespace kdagen::test
