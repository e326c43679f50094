// SPDX-License-Identifier: Apache-2.0
// Values: nodes of the spec's graph, each with its axes and the line of the spec that wrote it.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kdagen/axis.h"
#include "kdagen/constant.h"
#include "kdagen/text.h"

namespace kdagen {

/// A detail of an op: its name, and its value as JSON.
struct Attribute {
  Attribute(std::string name, bool value) : name(std::move(name)), json(value ? "true" : "false") {}
  Attribute(std::string name, double value) : name(std::move(name)), json(text::number(value)) {}
  Attribute(std::string name, long long value) : name(std::move(name)), json(std::to_string(value)) {}
  Attribute(std::string name, const std::string& word) : name(std::move(name)), json("\"" + word + "\"") {}
  Attribute(std::string name, const char* word) : Attribute(std::move(name), std::string(word)) {}
  Attribute(std::string name, const std::vector<std::string>& words)
      : name(std::move(name)), json("[\"" + text::join(words, "\",\"") + "\"]") {}

  std::string name, json;
};

/// One op of the graph; docs/architecture.md section 2 lists ops and attributes.
struct Node {
  std::string op;
  std::string name;  // of an input or param, or given by Spec::let
  std::vector<std::shared_ptr<Node>> operands;
  Axes axes;
  std::vector<Attribute> attributes;
  Constant constant;            // op "constant" only
  const void* owner = nullptr;  // the spec, once an input, a param or an index is among its ancestors
  bool tile = false;            // belongs to a tile (depends on an input or on the row axis)
  bool truth = false;           // result of a comparison
  Location where;

  ~Node();
};

// A chain of a million ops must not be released by a million nested destructors.
inline Node::~Node() {
  std::vector<std::shared_ptr<Node>> pending = std::move(operands);
  while (!pending.empty()) {
    std::shared_ptr<Node> node = std::move(pending.back());
    pending.pop_back();
    if (node.use_count() == 1)
      for (auto& operand : node->operands) pending.push_back(std::move(operand));
  }
}

/// Makes every op built during its lifetime carry the given location: a composite such as softmax takes a defaulted
/// Location, opens a Composite with it, and its ops then point at the user's line. The outermost one wins.
class Composite {
 public:
  explicit Composite(const Location& user) : outer_(slot()) {
    if (!outer_) slot() = &user;
  }
  ~Composite() { slot() = outer_; }
  Composite(const Composite&) = delete;
  Composite& operator=(const Composite&) = delete;
  static const Location& location(const Location& fallback) { return slot() ? *slot() : fallback; }

 private:
  static const Location*& slot() {
    static thread_local const Location* current = nullptr;
    return current;
  }
  const Location* outer_;
};

/// A float32 quantity over named axes. Copies name the same node.
class Value {
 public:
  Value() = default;
  Value(double number, const Location& where = Location::current()) : Value(Constant(number), where) {}
  Value(const Constant& constant, const Location& where = Location::current());
  explicit Value(std::shared_ptr<Node> node) : node_(std::move(node)) {}

  bool empty() const { return !node_; }
  const Axes& axes() const { return node_->axes; }
  const std::shared_ptr<Node>& node() const { return node_; }

 private:
  std::shared_ptr<Node> node_;
};

inline Value::Value(const Constant& constant, const Location& where) : node_(std::make_shared<Node>()) {
  const Location& user = Composite::location(where);
  if (const std::string defect = constant.defect(); !defect.empty())
    spec_error(user, defect + "; pass a finite number of float's range");
  node_->op = "constant";
  node_->constant = constant;
  node_->where = user;
}

/// A Value together with the place of the call it is passed to: the conversion happens in the caller's expression,
/// which is how operators, having no room for a defaulted parameter, know the user's line.
struct Operand {
  Operand(const Value& v, const Location& where = Location::current()) : value(v), where(Composite::location(where)) {
    if (value.empty()) spec_error(this->where, "a Value is used that was declared but never given an expression");
  }
  Operand(const Constant& constant, const Location& where = Location::current())
      : value(constant, where), where(Composite::location(where)) {}
  Operand(double number, const Location& where = Location::current()) : Operand(Constant(number), where) {}

  const Node& node() const { return *value.node(); }

  Value value;
  Location where;
};

/// "g (line 12)" or "a value of line 12", for messages.
inline std::string describe(const Node& node) {
  const std::string line = "line " + std::to_string(node.where.line());
  return node.name.empty() ? "the value of " + line : node.name + " (" + line + ")";
}

namespace detail {

inline const void* common_owner(const void* a, const void* b, const Location& where) {
  if (a && b && a != b) spec_error(where, "values of two specs are mixed; declare both in the same Spec");
  return a ? a : b;
}

/// New op over the union of its operands' axes. `truth_operand` is the one position that takes a comparison's result.
inline std::shared_ptr<Node> make_node(std::string op, const std::vector<Operand>& operands, int truth_operand = -1) {
  auto node = std::make_shared<Node>();
  node->op = std::move(op);
  node->where = operands.front().where;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Node& operand = operands[i].node();
    node->owner = common_owner(node->owner, operand.owner, node->where);
    if (operand.truth && static_cast<int>(i) != truth_operand)
      spec_error(node->where, node->op + " takes numbers, but " + describe(operand) +
                                  " is a truth value; turn it into one with select(condition, 1.0, 0.0)");
    if (!operand.truth && static_cast<int>(i) == truth_operand)
      spec_error(node->where, node->op + " takes a truth value first, but " + describe(operand) +
                                  " is a number; compare it: less, less_equal, equal or isnan");
    node->axes = axis_union(node->axes, operand.axes);
    node->tile = node->tile || operand.tile;
    node->operands.push_back(operands[i].value.node());
  }
  return node;
}

inline bool is_constant(const Operand& x) { return x.node().op == "constant"; }

inline Value pointwise(std::string op, const std::vector<Operand>& operands) {
  return Value(make_node(std::move(op), operands));
}

inline Value comparison(std::string op, const std::vector<Operand>& operands) {
  auto node = make_node(std::move(op), operands);
  node->truth = true;
  return Value(node);
}

}  // namespace detail

// Constants stay constants: neg, * and / of two constants are folded exactly, + and - where the symbols agree.
inline Value operator-(const Operand& x) {
  return detail::is_constant(x) ? Value(-x.node().constant, x.where) : detail::pointwise("neg", {x});
}

inline Value operator*(const Operand& a, const Operand& b) {
  if (detail::is_constant(a) && detail::is_constant(b)) return Value(a.node().constant * b.node().constant, a.where);
  return detail::pointwise("mul", {a, b});
}

inline Value operator/(const Operand& a, const Operand& b) {
  if (detail::is_constant(b) && b.node().constant.value() == 0)
    spec_error(a.where, "division by the constant zero; divide by something else");
  if (detail::is_constant(a) && detail::is_constant(b)) return Value(a.node().constant / b.node().constant, a.where);
  return detail::pointwise("div", {a, b});
}

namespace detail {
inline bool same_symbols(const Operand& a, const Operand& b) {
  return is_constant(a) && is_constant(b) && a.node().constant.symbols() == b.node().constant.symbols();
}
}  // namespace detail

inline Value operator+(const Operand& a, const Operand& b) {
  if (detail::same_symbols(a, b)) {
    const Constant &x = a.node().constant, &y = b.node().constant;
    return Value(x.with_coefficient(x.coefficient() + y.coefficient()), a.where);
  }
  return detail::pointwise("add", {a, b});
}

inline Value operator-(const Operand& a, const Operand& b) {
  if (detail::same_symbols(a, b)) {
    const Constant &x = a.node().constant, &y = b.node().constant;
    return Value(x.with_coefficient(x.coefficient() - y.coefficient()), a.where);
  }
  return detail::pointwise("sub", {a, b});
}

inline Value& operator+=(Value& a, const Operand& b) { return a = Operand(a, b.where) + b; }
inline Value& operator-=(Value& a, const Operand& b) { return a = Operand(a, b.where) - b; }
inline Value& operator*=(Value& a, const Operand& b) { return a = Operand(a, b.where) * b; }
inline Value& operator/=(Value& a, const Operand& b) { return a = Operand(a, b.where) / b; }

}  // namespace kdagen
