// SPDX-License-Identifier: Apache-2.0
#include "codegen/import/node_ops.h"

#include <functional>
#include <map>

using namespace mlir;

namespace kdagen {
namespace {
using kda::AxisRole;
using kda::Builder;
using Operands = llvm::ArrayRef<Value>;
using Make = Value (*)(Builder&, Operands);

template <typename OpTy>
Value pointwise(Builder& build, Operands operands) {
  return build.pointwise<OpTy>(operands);
}
template <typename OpTy>
Value compare(Builder& build, Operands operands) {
  return build.compare<OpTy>(operands);
}

struct PointwiseOp {
  size_t arity;
  Make make;
};

const std::map<std::string, PointwiseOp>& pointwise_ops() {
  static const std::map<std::string, PointwiseOp> ops = {
      {"neg", {1, pointwise<kda::NegOp>}},
      {"exp", {1, pointwise<kda::ExpOp>}},
      {"exp2", {1, pointwise<kda::Exp2Op>}},
      {"log", {1, pointwise<kda::LogOp>}},
      {"log1p", {1, pointwise<kda::Log1pOp>}},
      {"sqrt", {1, pointwise<kda::SqrtOp>}},
      {"rsqrt", {1, pointwise<kda::RsqrtOp>}},
      {"sigmoid", {1, pointwise<kda::SigmoidOp>}},
      {"softplus", {1, pointwise<kda::SoftplusOp>}},
      {"tanh", {1, pointwise<kda::TanhOp>}},
      {"relu", {1, pointwise<kda::ReluOp>}},
      {"abs", {1, pointwise<kda::AbsOp>}},
      {"detach", {1, pointwise<kda::DetachOp>}},
      {"add", {2, pointwise<kda::AddOp>}},
      {"sub", {2, pointwise<kda::SubOp>}},
      {"mul", {2, pointwise<kda::MulOp>}},
      {"div", {2, pointwise<kda::DivOp>}},
      {"pow", {2, pointwise<kda::PowOp>}},
      {"min", {2, pointwise<kda::MinOp>}},
      {"max", {2, pointwise<kda::MaxOp>}},
      {"isnan", {1, compare<kda::IsNanOp>}},
      {"less", {2, compare<kda::LessOp>}},
      {"less_equal", {2, compare<kda::LessEqualOp>}},
      {"equal", {2, compare<kda::EqualOp>}},
      {"select", {3, pointwise<kda::SelectOp>}},
  };
  return ops;
}

bool is_truth_value(Value value) { return kda::type_of(value).getElement().isInteger(1); }

void check_operands(const std::string& op, const Fields& node, Operands operands, size_t arity) {
  if (operands.size() != arity) node.damaged(fmt::format("({}) has {} operands, not {}", op, operands.size(), arity));
  for (size_t i = 0; i < arity; ++i)
    if (is_truth_value(operands[i]) != (op == "select" && i == 0))
      throw std::string(op == "select" && i == 0
                            ? "select needs a truth value as its first operand: the result of less, "
                              "less_equal, equal or isnan"
                            : op + " needs numbers; turn a truth value into one with select");
}

/// The axis, which the operand must have (`op` goes over it).
kda::AxisAttr axis_of(Builder& build, const std::string& op, const std::string& name, Value operand) {
  auto axis = build.kernel().axis(name);
  if (!axis) throw op + " goes over axis '" + name + "', which the spec does not have";
  if (operand && !kda::type_of(operand).hasAxis(name))
    throw op + " goes over axis '" + name + "', which its operand does not have";
  return axis;
}

std::string row_axis_of(Builder& build, const std::string& op, const Fields& node, Value operand) {
  auto axis = axis_of(build, op, node.text("over"), operand);
  if (axis.getRole() != AxisRole::Rows)
    throw op + " goes over rows only, and '" + axis.getName().str() + "' is another axis";
  return axis.getName().str();
}

/// sum and max_reduce. A sum is one op a stage, features before rows, so that each has one order of additions; a
/// maximum stays one op, because its gradient is shared evenly among all ties.
Value reduce(Builder& build, const std::string& op, const Fields& node, Value operand) {
  SmallVector<std::string> features, rows;
  for (const auto& name : node.texts("over")) {
    AxisRole role = axis_of(build, op, name, operand).getRole();
    if (role != AxisRole::Feature && role != AxisRole::Rows)
      throw op + " goes over '" + name + "': heads are computed apart from each other; sum over rows and features only";
    auto& names = role == AxisRole::Feature ? features : rows;
    if (llvm::is_contained(names, name)) node.damaged("names an axis twice in \"over\"");
    names.push_back(name);
  }
  if (features.empty() && rows.empty()) node.damaged("names no axis in \"over\"");
  if (op == "max_reduce") {
    rows.append(features);
    return build.max_reduce(operand, rows);
  }
  if (!features.empty()) operand = build.sum(operand, features);
  return rows.empty() ? operand : build.sum(operand, rows);
}

Value index(Builder& build, const std::string& op, const Fields& node) {
  auto axis = axis_of(build, op, node.text("over"), {});
  if (axis.getRole() != AxisRole::Feature && axis.getRole() != AxisRole::Rows)
    throw std::string("index counts rows or features, not '") + axis.getName().str() + "'";
  return build.index(axis.getName().str());
}

Value clamp(Builder& build, const Fields& node, Value x) {
  double lower = node.number("lower"), upper = node.number("upper");
  if (!(lower <= upper))
    throw fmt::format("clamp from {} to {} is empty; the lower bound must not exceed the upper", lower, upper);
  return build.clamp(x, lower, upper);
}

}  // namespace

Type storage_type(MLIRContext* context, const std::string& dtype) {
  if (dtype == "bf16") return BFloat16Type::get(context);
  if (dtype == "fp16") return Float16Type::get(context);
  if (dtype == "f32") return Float32Type::get(context);
  return {};
}

Value import_op(Builder& build, const std::string& op, const Fields& node, Operands operands) {
  if (auto it = pointwise_ops().find(op); it != pointwise_ops().end()) {
    check_operands(op, node, operands, it->second.arity);
    return it->second.make(build, operands);
  }
  bool known = op == "index" || op == "clamp" || op == "round" || op == "sum" || op == "max_reduce" || op == "cumsum" ||
               op == "total" || op == "last" || op == "shift";
  if (!known) node.damaged("has the unknown op \"" + op + "\"");
  check_operands(op, node, operands, op == "index" ? 0 : 1);
  if (op == "index") return index(build, op, node);
  Value x = operands[0];
  if (op == "clamp") return clamp(build, node, x);
  if (op == "round") {
    Type storage = storage_type(build.context(), node.text("dtype"));
    if (!storage) node.damaged("rounds to the unknown type \"" + node.text("dtype") + "\"");
    return build.round(x, storage);
  }
  if (op == "sum" || op == "max_reduce") return reduce(build, op, node, x);
  std::string rows = row_axis_of(build, op, node, x);
  if (op == "cumsum")
    return build.scan(x, rows, node.boolean_or("exclusive", false), node.boolean_or("reverse", false));
  if (op == "total") return build.sum(x, {rows});
  if (op == "last") return build.last(x, rows);
  return build.shift(x, rows, node.integer("amount", -(1 << 20), 1 << 20), node.number("fill"));
}

}  // namespace kdagen
