// SPDX-License-Identifier: Apache-2.0
// The finished spec as JSON, and the checks that need all of it. The schema is docs/architecture.md section 2.
#pragma once
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kdagen/spec.h"

namespace kdagen {

/// Version of the JSON and of the plug-in interface.
inline constexpr int graph_schema = 1;

/// Numbers the nodes and writes them. Ids follow the order of declaration (inputs, params, lets, outputs), operands
/// first, so they depend neither on how a compiler orders calls nor on dead values.
class GraphWriter {
 public:
  explicit GraphWriter(const Spec& spec) : data_(*spec.data_) {}

  std::string write() {
    for (const auto& root : data_.roots) number_with_operands(root.get());
    for (const auto& output : data_.outputs)
      if (output->unit()) number_with_operands(output->unit().get());
    json_.open('{');
    json_.key("schema").integer(graph_schema).key("name").string(data_.name).key("summary").string(data_.summary);
    json_.key("file").string(data_.where.file_name());
    write_axes();
    json_.key("chunk").integer(data_.options.chunk()).key("dim").integer(data_.options.dim());
    write_options();
    json_.key("nodes").open('[');
    for (const Node* node : order_) write_node(*node);
    json_.close(']').key("outputs").open('[');
    for (const auto& output : data_.outputs) write_output(*output);
    json_.close(']').close('}');
    return json_.take();
  }

 private:
  void number_with_operands(const Node* root) {
    std::vector<std::pair<const Node*, std::size_t>> path = {{root, 0}};
    if (ids_.count(root)) return;
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next < node->operands.size()) {
        const Node* operand = node->operands[next++].get();
        if (!ids_.count(operand)) path.push_back({operand, 0});
        continue;
      }
      if (ids_.emplace(node, order_.size()).second) order_.push_back(node);
      path.pop_back();
    }
  }

  void write_axes() {
    json_.key("axes").open('[');
    for (const Axis& axis : axis_union({}, data_.axes))
      json_.open('{').key("name").string(axis.name()).key("role").string(role_name(axis.role())).close('}');
    json_.close(']');
  }

  void write_options() {
    json_.key("options").open('[');
    for (const OptionInfo& info : data_.options.declared()) {
      json_.line().open('{').key("name").string(info.name);
      if (info.kind == OptionInfo::Kind::choice) {
        json_.key("kind").string("choice").key("default").string(info.choice_default);
        json_.key("value").string(info.choice_value).key("choices").strings(info.choices);
      } else if (info.kind == OptionInfo::Kind::integer) {
        json_.key("kind").string("integer").key("default").integer(info.integer_default);
        json_.key("value").integer(info.integer_value).key("min").integer(info.integer_min);
        json_.key("max").integer(info.integer_max);
      } else {
        json_.key("kind").string("number").key("default").number(info.number_default);
        json_.key("value").number(info.number_value);
        if (info.number_min > -Options::unbounded) json_.key("min").number(info.number_min);
        if (info.number_max < Options::unbounded) json_.key("max").number(info.number_max);
      }
      json_.close('}');
    }
    json_.close(']');
  }

  void write_node(const Node& node) {
    json_.line().open('{').key("op").string(node.op);
    if (!node.name.empty()) json_.key("name").string(node.name);
    if (!node.operands.empty()) {
      json_.key("operands").open('[');
      for (const auto& operand : node.operands) json_.integer(ids_.at(operand.get()));
      json_.close(']');
    }
    json_.key("axes").open('[');
    for (const Axis& axis : node.axes) json_.string(axis.name());
    json_.close(']');
    if (node.op == "constant") write_constant(node.constant);
    for (const Attribute& attribute : node.attributes) json_.key(attribute.name).raw(attribute.json);
    write_location(node.where);
    json_.close('}');
  }

  void write_constant(const Constant& constant) {
    json_.key("coefficient").number(constant.coefficient()).key("symbols").open('[');
    for (const Symbol& s : constant.symbols())
      json_.open('{').key("name").string(s.name).key("value").number(s.value).key("power").integer(s.power).close('}');
    json_.close(']');
  }

  // `file` only where it is not the spec's own: a composite in a header that did not pass its caller's location on. No
  // column: compilers disagree about it, and the graph's hash is the spec's.
  void write_location(const Location& where) {
    if (std::strcmp(where.file_name(), data_.where.file_name()) != 0) json_.key("file").string(where.file_name());
    json_.key("line").integer(where.line());
  }

  void write_output(const Output& output) {
    const DType dtype = output.fixed_dtype() ? *output.fixed_dtype() : data_.options.out(output.name());
    json_.line().open('{').key("name").string(output.name()).key("node").integer(ids_.at(output.node().get()));
    json_.key("dtype").string(dtype_name(dtype));
    if (output.unit()) json_.key("unit").integer(ids_.at(output.unit().get()));
    if (output.anchor() != "none") json_.key("anchor").string(output.anchor());
    write_location(output.where());
    json_.close('}');
  }

  const Spec::Data& data_;
  std::map<const Node*, std::size_t> ids_;
  std::vector<const Node*> order_;
  text::JsonWriter json_;
};

inline void Spec::check_whole() const {
  const Data& d = *data_;
  if (!has_role(d.axes, Role::rows) || !has_role(d.axes, Role::head))
    spec_error(d.where, "spec " + d.name + " needs a row axis and a head axis: rows(\"t\") and heads(\"h\")");
  if (d.outputs.empty()) spec_error(d.where, "spec " + d.name + " has no output; declare at least one");
  std::map<const Node*, std::size_t> reached;
  std::vector<const Node*> pending;
  for (const auto& output : d.outputs) pending.push_back(output->node().get());
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (!reached.emplace(node, 0).second) continue;
    for (const auto& operand : node->operands) pending.push_back(operand.get());
  }
  for (const auto& root : d.roots)
    if ((root->op == "input" || root->op == "param") && !reached.count(root.get()))
      spec_error(root->where, root->op + " " + root->name + " reaches no output; use it or leave it out");
}

inline std::string Spec::graph() const {
  check_whole();
  std::vector<std::string> free_outputs;
  for (const auto& output : data_->outputs)
    if (!output->fixed_dtype()) free_outputs.push_back(output->name());
  data_->options.check_all_known(data_->name, data_->free_inputs, free_outputs);
  return GraphWriter(*this).write();
}

}  // namespace kdagen
