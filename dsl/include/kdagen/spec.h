// SPDX-License-Identifier: Apache-2.0
// Spec: the forward program of one kernel, with its axes, tensors, named values and outputs.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kdagen/options.h"
#include "kdagen/scan.h"

namespace kdagen {

/// What Spec::input and Spec::param return: a Value whose declaration can still be refined.
class Tensor : public Value {
 public:
  explicit Tensor(std::shared_ptr<Node> node) : Value(std::move(node)) {}

  /// The caller may leave the tensor out; its elements then read as `absent`.
  Tensor& optional(double absent = 0.0, const Location& where = Location::current()) {
    if (!(absent >= -3.0e38 && absent <= 3.0e38))
      spec_error(where, "optional: the value when absent is not a finite float");
    node()->attributes.push_back({"optional", true});
    node()->attributes.push_back({"absent", absent});
    return *this;
  }
  /// Promises lower <= x <= upper to the range analysis; an infinite end promises nothing.
  Tensor& bounds(double lower, double upper, const Location& where = Location::current()) {
    if (!(lower <= upper)) spec_error(where, "bounds of " + node()->name + ": lower must not be above upper, nor NaN");
    if (lower > -Options::unbounded) node()->attributes.push_back({"lower", lower});
    if (upper < Options::unbounded) node()->attributes.push_back({"upper", upper});
    return *this;
  }
};

/// What Spec::output returns. An output is stored in the option out.NAME, else `out`, unless dtype() fixes it.
class Output {
 public:
  Output(std::string name, std::shared_ptr<Node> node, const Location& where)
      : name_(std::move(name)), node_(std::move(node)), where_(where) {}

  Output& dtype(DType fixed) {
    dtype_ = fixed;
    return *this;
  }
  /// The caller hands over cotangent / unit.
  Output& cotangent_unit(const Constant& unit, const Location& where = Location::current()) {
    if (const std::string defect = unit.defect(); !defect.empty() || unit.value() == 0)
      spec_error(where, "cotangent_unit of " + name_ + ": " + (defect.empty() ? "the unit is zero" : defect));
    unit_ = Value(unit, where).node();
    return *this;
  }
  /// none: stored as it is. static: stored as value * 2^n, n fixed when compiling. subchunk: n by sub-chunk, in the
  /// integer output NAME_anchor.
  Output& anchor(const std::string& kind, const Location& where = Location::current()) {
    if (kind != "none" && kind != "static" && kind != "subchunk")
      spec_error(where, "anchor of " + name_ + ": \"" + kind + "\" is none of none, static, subchunk");
    anchor_ = kind;
    return *this;
  }

  const std::string& name() const { return name_; }
  const std::shared_ptr<Node>& node() const { return node_; }
  const Location& where() const { return where_; }
  const std::optional<DType>& fixed_dtype() const { return dtype_; }
  const std::shared_ptr<Node>& unit() const { return unit_; }
  const std::string& anchor() const { return anchor_; }

 private:
  std::string name_;
  std::shared_ptr<Node> node_;
  Location where_;
  std::optional<DType> dtype_;
  std::shared_ptr<Node> unit_;
  std::string anchor_ = "none";
};

/// A spec under construction. Copies share it.
class Spec {
 public:
  Spec(const std::string& name, const std::string& summary, const Options& options,
       const Location& where = Location::current())
      : data_(std::make_shared<Data>(Data{name, summary, options, where, {}, {}, {}, {}, {}})) {
    require_identifier("the spec name", name, where);
    if (!text::is_utf8(summary)) spec_error(where, "the summary is not UTF-8");
  }

  /// The axis of tokens, cut into chunks of `chunk` rows; scans restart at each chunk.
  Axis rows(const std::string& name, const Location& where = Location::current()) {
    return make_axis(name, Role::rows, data_->options.chunk(), where);
  }
  /// The axis of heads: every head is computed alone.
  Axis heads(const std::string& name, const Location& where = Location::current()) {
    return make_axis(name, Role::head, 0, where);
  }
  /// The axis of `dim` features.
  Axis features(const std::string& name, const Location& where = Location::current()) {
    return make_axis(name, Role::feature, data_->options.dim(), where);
  }

  /// A tensor over {rows, head} or {rows, head, feature}, stored in option dtype.NAME, else `dtype`.
  Tensor input(const std::string& name, const Axes& axes, const Location& where = Location::current()) {
    data_->free_inputs.push_back(name);
    return make_input(name, data_->options.dtype(name), axes, where);
  }
  /// The same with its type fixed by the spec.
  Tensor input(const std::string& name, DType dtype, const Axes& axes, const Location& where = Location::current()) {
    return make_input(name, dtype, axes, where);
  }
  /// A float32 parameter over some of head and feature, shared by all tokens: {h, d}, {h}, {d} or {}.
  Tensor param(const std::string& name, const Axes& axes, const Location& where = Location::current()) {
    for (const Axis& axis : axes)
      if (axis.owner() && axis.role() == Role::rows)
        spec_error(where, "param " + name + " carries the row axis " + axis.name() +
                              "; parameters are shared by all tokens, so make it an input");
    return make_tensor("param", name, f32, axes, where);
  }

  /// Names a value, for the emitted text, for --tap and for save=NAME.
  Value let(const std::string& name, const Operand& value) {
    const std::shared_ptr<Node>& node = value.value.node();
    require_new_name("the value", name, value.where);
    if (!node->name.empty())
      spec_error(value.where, "let " + name + ": the value already has the name " + node->name + "; use that");
    node->name = name;
    data_->names[name] = node.get();
    data_->roots.push_back(node);
    return value.value;
  }

  /// Declares an output: a value of the tile over {rows, head[, feature]}, or one per chunk over {head[, feature]}.
  Output& output(const std::string& name, const Operand& value) {
    check_output(name, value);
    data_->names.try_emplace(name, value.value.node().get());
    data_->outputs.push_back(std::make_shared<Output>(name, value.value.node(), value.where));
    data_->roots.push_back(value.value.node());
    return *data_->outputs.back();
  }

  const std::string& name() const { return data_->name; }

  /// The finished spec as JSON (docs/architecture.md section 2). Throws SpecError where the spec as a whole cannot be
  /// right, UsageError for options that it does not have.
  std::string graph() const;

 private:
  struct Data {
    std::string name, summary;
    Options options;
    Location where;
    Axes axes;
    std::vector<std::shared_ptr<Node>> roots;  // inputs, params, lets, outputs in the order of declaration
    std::vector<std::shared_ptr<Output>> outputs;
    std::map<std::string, const Node*> names;
    std::vector<std::string> free_inputs;  // those whose type is an option
  };

  Axis make_axis(const std::string& name, Role role, int extent, const Location& where);
  Tensor make_input(const std::string& name, DType dtype, const Axes& axes, const Location& where);
  Tensor make_tensor(const std::string& op, const std::string& name, DType dtype, const Axes& axes,
                     const Location& where);
  void require_new_name(const std::string& what, const std::string& name, const Location& where) const;
  void require_axes(const std::string& what, const Axes& axes, const Location& where) const;
  void check_output(const std::string& name, const Operand& value) const;
  void check_whole() const;

  std::shared_ptr<Data> data_;
  friend class GraphWriter;
};

inline Axis Spec::make_axis(const std::string& name, Role role, int extent, const Location& where) {
  require_identifier("the axis name", name, where);
  if (name == "b" || name == "n")
    spec_error(where, "the axis name " + name + " is taken: b is the batch row, n the chunk's number; choose another");
  for (const Axis& other : data_->axes)
    if (other.name() == name || other.role() == role)
      spec_error(where, "axis " + name + ": the spec already has the " + role_name(other.role()) + " axis " +
                            other.name() + "; each spec has one axis of each kind");
  data_->axes.emplace_back(name, role, extent, data_.get());
  return data_->axes.back();
}

inline void Spec::require_axes(const std::string& what, const Axes& axes, const Location& where) const {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i].owner()) spec_error(where, what + " uses an Axis that no Spec made; use rows, heads or features");
    detail::common_owner(data_.get(), axes[i].owner(), where);
    if (std::count(axes.begin(), axes.end(), axes[i]) > 1)
      spec_error(where, what + " lists " + axes[i].name() + " twice");
  }
}

inline Tensor Spec::make_tensor(const std::string& op, const std::string& name, DType dtype, const Axes& axes,
                                const Location& where) {
  require_new_name("the " + op, name, where);
  require_axes(op + " " + name, axes, where);
  auto node = std::make_shared<Node>();
  node->op = op;
  node->name = name;
  node->axes = axis_union({}, axes);
  node->owner = data_.get();
  node->tile = op == "input";
  node->where = where;
  node->attributes = {{"dtype", dtype_name(dtype)}};
  data_->names[name] = node.get();
  data_->roots.push_back(node);
  return Tensor(node);
}

inline Tensor Spec::make_input(const std::string& name, DType dtype, const Axes& axes, const Location& where) {
  Tensor tensor = make_tensor("input", name, dtype, axes, where);
  if (!has_role(axes, Role::rows) || !has_role(axes, Role::head))
    spec_error(where,
               "input " + name + " has the axes " + to_string(axes) +
                   "; an input has a row for every token and head, {t, h} or {t, h, d}; what tokens share is a param");
  return tensor;
}

// One namespace for inputs, params, named values and outputs: run files, taps and the emitted text use these names, and
// d<name> for gradients beside them.
inline void Spec::require_new_name(const std::string& what, const std::string& name, const Location& where) const {
  require_identifier(what + " name", name, where);
  const auto& names = data_->names;
  if (const auto found = names.find(name); found != names.end())
    spec_error(where, what + " " + name + ": the name is taken by " + describe(*found->second) + "; choose another");
  if (name == "cu_seqlens") spec_error(where, "the name cu_seqlens is the sequence offsets'; choose another");
  const auto refuse_gradient = [&](const std::string& gradient, const std::string& of) {
    spec_error(where,
               what + " " + name + ": " + gradient + " is the name of the gradient of " + of + "; choose another");
  };
  if (name[0] == 'd' && names.count(name.substr(1))) refuse_gradient(name, name.substr(1));
  if (names.count("d" + name)) refuse_gradient("d" + name, name);
}

inline void Spec::check_output(const std::string& name, const Operand& value) const {
  const Node& node = value.node();
  const auto found = data_->names.find(name);
  if (found == data_->names.end() || found->second != &node || node.op == "input" || node.op == "param")
    require_new_name("the output", name, value.where);
  for (const auto& other : data_->outputs)
    if (other->name() == name) spec_error(value.where, "output " + name + " is declared twice; choose another name");
  detail::common_owner(data_.get(), node.owner, value.where);
  if (node.truth)
    spec_error(value.where, "output " + name + " is a truth value; store a number: select(condition, 1.0, 0.0)");
  if (!node.tile)
    spec_error(value.where, "output " + name + " depends on no token; an output needs an input among its operands");
  if (!has_role(node.axes, Role::head))
    spec_error(value.where, "output " + name + " has the axes " + to_string(node.axes) +
                                " and lacks the head axis; outputs are over {t, h, d}, {t, h}, {h, d} or {h}");
}

}  // namespace kdagen

#include "kdagen/graph.h"
