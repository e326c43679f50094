// SPDX-License-Identifier: Apache-2.0
// Scans and shifts along the rows of a chunk, and row and column numbers. Only valid rows take part.
#pragma once
#include "kdagen/math.h"

namespace kdagen {

/// exclusive: row r is left out of its own sum. reverse: from the chunk's last valid row upwards.
struct Scan {
  bool exclusive = false;
  bool reverse = false;
};

namespace detail {

inline std::shared_ptr<Node> row_op(const std::string& op, const Operand& x, const Axis& axis) {
  auto node = make_node(op, {x});
  common_owner(node->owner, axis.owner(), x.where);
  if (axis.role() != Role::rows)
    spec_error(x.where, op + " over " + axis.name() + ": it runs along the row axis only" +
                            (op == "total" ? "; sum reduces over any axis" : ""));
  if (!contains(node->axes, axis))
    spec_error(x.where, op + " over " + axis.name() + ": " + describe(x.node()) + " has the axes " +
                            to_string(node->axes) + "; it must have " + axis.name());
  node->attributes = {{"over", axis.name()}};
  return node;
}

}  // namespace detail

/// Inclusive: y[r] = sum_{s<=r} x[s].   Exclusive: s<r.   Reverse: s>=r, s>r.   Restarts at each chunk.
inline Value cumsum(const Operand& x, const Axis& axis, Scan scan = {}) {
  auto node = detail::row_op("cumsum", x, axis);
  node->attributes.push_back({"exclusive", scan.exclusive});
  node->attributes.push_back({"reverse", scan.reverse});
  return Value(node);
}

/// The scan's own last value, sum_s x[s], with its order of additions: total(x, t) has the bits of last(cumsum(x, t),
/// t).
inline Value total(const Operand& x, const Axis& axis) {
  auto node = detail::row_op("total", x, axis);
  std::erase(node->axes, axis);
  return Value(node);
}

/// x at the chunk's last valid row.
inline Value last(const Operand& x, const Axis& axis) {
  auto node = detail::row_op("last", x, axis);
  std::erase(node->axes, axis);
  return Value(node);
}

/// y[r] = x[r - amount], or `fill` where that row is not in the chunk.
inline Value shift(const Operand& x, const Axis& axis, long long amount, double fill = 0.0) {
  auto node = detail::row_op("shift", x, axis);
  if (amount <= -axis.extent() || amount >= axis.extent())
    spec_error(x.where, "shift by " + std::to_string(amount) + " rows leaves nothing of a chunk of " +
                            std::to_string(axis.extent()) + "; stay below the chunk");
  if (!(fill >= -3.0e38 && fill <= 3.0e38)) spec_error(x.where, "shift's fill is not a finite float");
  if (amount == 0) return x.value;
  node->attributes.push_back({"amount", amount});
  node->attributes.push_back({"fill", fill});
  return Value(node);
}

/// The row's number inside its chunk, or the column's number, as a float: 0, 1, 2, ...
inline Value index(const Axis& axis, const Location& where = Location::current()) {
  const Location& user = Composite::location(where);
  if (!axis.owner()) spec_error(user, "index over an Axis that no Spec made; use rows(...) or features(...)");
  if (axis.role() == Role::head)
    spec_error(user, "index over the head axis " + axis.name() + " is not supported; pass a param over {" +
                         axis.name() + "} with the numbers");
  auto node = std::make_shared<Node>();
  node->op = "index";
  node->axes = {axis};
  node->owner = axis.owner();
  node->tile = axis.role() == Role::rows;
  node->attributes = {{"over", axis.name()}};
  node->where = user;
  return Value(node);
}
inline Value iota(const Axis& axis, const Location& where = Location::current()) { return index(axis, where); }

}  // namespace kdagen
