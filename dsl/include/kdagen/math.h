// SPDX-License-Identifier: Apache-2.0
// Pointwise functions, reductions, and composites. Binary functions broadcast over the union of their axes.
// Composites are ordinary functions over primitives: their backward is derived like any other.
#pragma once
#include <string>
#include <vector>

#include "kdagen/value.h"

namespace kdagen {

inline Value exp(const Operand& x) { return detail::pointwise("exp", {x}); }
/// 2^x
inline Value exp2(const Operand& x) { return detail::pointwise("exp2", {x}); }
inline Value log(const Operand& x) { return detail::pointwise("log", {x}); }
/// ln(1 + x)
inline Value log1p(const Operand& x) { return detail::pointwise("log1p", {x}); }
inline Value sqrt(const Operand& x) { return detail::pointwise("sqrt", {x}); }
/// 1 / sqrt(x)
inline Value rsqrt(const Operand& x) { return detail::pointwise("rsqrt", {x}); }
/// 1 / (1 + e^-x)
inline Value sigmoid(const Operand& x) { return detail::pointwise("sigmoid", {x}); }
/// ln(1 + e^x)
inline Value softplus(const Operand& x) { return detail::pointwise("softplus", {x}); }
inline Value tanh(const Operand& x) { return detail::pointwise("tanh", {x}); }
/// max(x, 0)
inline Value relu(const Operand& x) { return detail::pointwise("relu", {x}); }
inline Value abs(const Operand& x) { return detail::pointwise("abs", {x}); }
inline Value neg(const Operand& x) { return -x; }
inline Value pow(const Operand& base, const Operand& exponent) { return detail::pointwise("pow", {base, exponent}); }
inline Value min(const Operand& a, const Operand& b) { return detail::pointwise("min", {a, b}); }
inline Value max(const Operand& a, const Operand& b) { return detail::pointwise("max", {a, b}); }

/// Comparisons give truth values, which only `select` takes.
inline Value less(const Operand& a, const Operand& b) { return detail::comparison("less", {a, b}); }
inline Value less_equal(const Operand& a, const Operand& b) { return detail::comparison("less_equal", {a, b}); }
inline Value equal(const Operand& a, const Operand& b) { return detail::comparison("equal", {a, b}); }
inline Value isnan(const Operand& x) { return detail::comparison("isnan", {x}); }

inline Value operator<(const Operand& a, const Operand& b) { return less(a, b); }
inline Value operator<=(const Operand& a, const Operand& b) { return less_equal(a, b); }
inline Value operator>(const Operand& a, const Operand& b) { return less(b, a); }
inline Value operator>=(const Operand& a, const Operand& b) { return less_equal(b, a); }

/// a where the condition holds, else b. The gradient flows to the side taken.
inline Value select(const Operand& condition, const Operand& a, const Operand& b) {
  return Value(detail::make_node("select", {condition, a, b}, 0));
}
inline Value where(const Operand& condition, const Operand& a, const Operand& b) { return select(condition, a, b); }

/// min(max(x, lower), upper), both finite.
inline Value clamp(const Operand& x, double lower, double upper) {
  if (!(lower <= upper) || lower < -3.0e38 || upper > 3.0e38)
    spec_error(x.where, "clamp needs finite lower <= upper; for one side use min or max");
  auto node = detail::make_node("clamp", {x});
  node->attributes = {{"lower", lower}, {"upper", upper}};
  return Value(node);
}
inline Value clamp(const Operand& x, const Constant& lower, const Constant& upper) {
  return clamp(x, lower.value(), upper.value());
}

/// x rounded to nearest even in a storage type; its derivative is taken to be 1.
inline Value round(const Operand& x, DType dtype) {
  auto node = detail::make_node("round", {x});
  node->attributes = {{"dtype", dtype_name(dtype)}};
  return Value(node);
}

/// x's value with no gradient: finite differences hold it at the base point.
inline Value detach(const Operand& x) { return detail::pointwise("detach", {x}); }

namespace detail {

inline Value reduction(const std::string& op, const Operand& x, const Axes& over) {
  auto node = make_node(op, {x});
  if (over.empty()) spec_error(x.where, op + " over no axis; name at least one, for instance sum(x, d)");
  std::vector<std::string> names;
  for (const Axis& axis : axis_union({}, over)) {
    common_owner(node->owner, axis.owner(), x.where);
    if (axis.role() == Role::head)
      spec_error(x.where, op + " over the head axis " + axis.name() +
                              ": a block sees one head only; reduce over rows or features");
    if (!contains(node->axes, axis))
      spec_error(x.where, op + " over " + axis.name() + ": " + describe(x.node()) + " has the axes " +
                              to_string(node->axes) + "; reduce over one of these");
    std::erase(node->axes, axis);
    names.push_back(axis.name());
  }
  node->attributes = {{"over", names}};
  return Value(node);
}

}  // namespace detail

/// Sum or largest value over one axis or several; the result lacks them. Rows are a tile's valid rows.
inline Value sum(const Operand& x, const Axis& axis) { return detail::reduction("sum", x, {axis}); }
inline Value sum(const Operand& x, const Axes& axes) { return detail::reduction("sum", x, axes); }
inline Value max(const Operand& x, const Axis& axis) { return detail::reduction("max_reduce", x, {axis}); }
inline Value max(const Operand& x, const Axes& axes) { return detail::reduction("max_reduce", x, axes); }

// ---- composites ----

/// x * rsqrt(sum x^2 + eps)
inline Value l2norm(const Value& x, const Axis& axis, const Constant& eps = 1e-6,
                    const Location& where = Location::current()) {
  const Composite at(where);
  return x * rsqrt(sum(x * x, axis) + eps);
}

/// sum / number of features
inline Value mean(const Value& x, const Axis& axis, const Location& where = Location::current()) {
  const Composite at(where);
  if (axis.role() != Role::feature)
    spec_error(Composite::location(where), "mean over " + axis.name() +
                                               ": only the feature axis has a length known when compiling; " +
                                               "over rows write sum(x, t) / (last(index(t), t) + 1.0)");
  return sum(x, axis) / static_cast<double>(axis.extent());
}

/// x * rsqrt(mean x^2 + eps)
inline Value rmsnorm(const Value& x, const Axis& axis, const Constant& eps = 1e-6,
                     const Location& where = Location::current()) {
  const Composite at(where);
  return x * rsqrt(mean(x * x, axis) + eps);
}

/// e^(x-m) / sum e^(x-m), m the largest x; m cancels, so no gradient goes through it.
inline Value softmax(const Value& x, const Axis& axis, const Location& where = Location::current()) {
  const Composite at(where);
  Value e = exp(x - detach(max(x, axis)));
  return e / sum(e, axis);
}

/// ln sigmoid(x) = -softplus(-x)
inline Value logsigmoid(const Value& x, const Location& where = Location::current()) {
  const Composite at(where);
  return -softplus(-x);
}

/// x * sigmoid(x)
inline Value silu(const Value& x, const Location& where = Location::current()) {
  const Composite at(where);
  return x * sigmoid(x);
}

}  // namespace kdagen
