// SPDX-License-Identifier: Apache-2.0
// The pointwise steps over flat arrays of equal length: one loop an op.
#pragma once
#include <algorithm>
#include <cstdint>

#include <kdagen/error.h>

#include "codegen/evaluator/fixed_point.h"
#include "codegen/evaluator/number.h"
#include "codegen/evaluator/orders.h"
#include "codegen/evaluator/program.h"

namespace kdagen::evaluator {

template <class Number, class Function>
void map1(const Number* x, Number* z, int64_t count, Function f) {
  for (int64_t i = 0; i < count; ++i) z[i] = f(x[i]);
}
template <class Number, class Function>
void map2(const Number* a, const Number* b, Number* z, int64_t count, Function f) {
  for (int64_t i = 0; i < count; ++i) z[i] = f(a[i], b[i]);
}
template <class Number, class Function>
void map3(const Number* a, const Number* b, const Number* c, Number* z, int64_t count, Function f) {
  for (int64_t i = 0; i < count; ++i) z[i] = f(a[i], b[i], c[i]);
}

/// x[i] are the operands, each of `count` elements. `obey_rounds` as in EvaluateOptions.
template <class Number>  // NOLINTNEXTLINE(readability-function-size): a case an op
void evaluate_pointwise(const Step& step, const Number* const* x, Number* z, int64_t count, bool obey_rounds) {
  namespace f = functions;
  using orders::multiply_add;
  using N = Number;
  auto unary = [&](auto function) { map1(x[0], z, count, function); };
  auto binary = [&](auto function) { map2(x[0], x[1], z, count, function); };
  // One value read twice: v - v and v < v do not depend on how well v is known.
  auto of_one_or_two = [&](auto function) {
    if (x[0] != x[1]) return binary(function);
    unary([&](N a) { return function(f::exact(a), f::exact(a)); });
  };
  switch (step.kind) {
    case Kind::neg:
      return unary([](N a) { return -a; });
    case Kind::exp:
      return unary([](N a) { return f::exp(a); });
    case Kind::exp2:
      return unary([](N a) { return f::exp2(a); });
    case Kind::log:
      return unary([](N a) { return f::log(a); });
    case Kind::log1p:
      return unary([](N a) { return f::log1p(a); });
    case Kind::sqrt:
      return unary([](N a) { return f::sqrt(a); });
    case Kind::rsqrt:
      return unary([](N a) { return f::rsqrt(a); });
    case Kind::rcp:
      return unary([](N a) { return f::rcp(a); });
    case Kind::sigmoid:
      return unary([](N a) { return f::sigmoid(a); });
    case Kind::sigmoid_grad:
      return unary([](N a) { return f::sigmoid_grad(a); });
    case Kind::softplus:
      return unary([](N a) { return f::softplus(a); });
    case Kind::tanh:
      return unary([](N a) { return f::tanh(a); });
    case Kind::relu:
      return unary([](N a) { return f::relu(a); });
    case Kind::abs:
      return unary([](N a) { return f::abs(a); });
    case Kind::isnan:
      return unary([](N a) { return f::isnan(a); });
    case Kind::rint:
      return unary([](N a) { return f::rint(a); });
    case Kind::scale_exactly:
      return unary([&](N a) { return f::scale_exactly(a, step.number); });
    case Kind::clamp:
      return unary([&](N a) { return f::clamp(a, step.number, step.upper); });
    case Kind::detach:
    case Kind::broadcast:
      std::copy(x[0], x[0] + count, z);
      return;
    case Kind::round:
      if constexpr (std::is_same_v<N, Tracked>)
        if (!obey_rounds) return unary([&](N a) { return f::round_in_float_only(a, step.storage); });
      if (!obey_rounds) {
        std::copy(x[0], x[0] + count, z);
        return;
      }
      return unary([&](N a) { return f::round(a, step.storage); });
    case Kind::add:
      return binary([](N a, N b) { return a + b; });
    case Kind::sub:
      return of_one_or_two([](N a, N b) { return a - b; });
    case Kind::mul:
      return binary([](N a, N b) { return a * b; });
    case Kind::div:
      return binary([](N a, N b) { return a / b; });
    case Kind::pow:
      return binary([](N a, N b) { return f::pow(a, b); });
    case Kind::min:
      return binary([](N a, N b) { return f::min(a, b); });
    case Kind::max:
      return binary([](N a, N b) { return f::max(a, b); });
    case Kind::less:
      return of_one_or_two([](N a, N b) { return f::less(a, b); });
    case Kind::less_equal:
      return of_one_or_two([](N a, N b) { return f::less_equal(a, b); });
    case Kind::equal:
      return of_one_or_two([](N a, N b) { return f::equal(a, b); });
    case Kind::fma:
      return map3(x[0], x[1], x[2], z, count, [](N a, N b, N c) { return multiply_add(a, b, c); });
    case Kind::select:
      return map3(x[0], x[1], x[2], z, count, [](N a, N b, N c) { return f::select(a, b, c); });
    case Kind::to_fixed:
      return unary([&](N a) { return fixed_point::to_fixed(a, step.fraction_bits, step.amount); });
    case Kind::to_fixed_small_side:
      return unary([&](N a) { return fixed_point::scaled_sigmoid(a, step.number, step.fraction_bits, step.amount); });
    case Kind::from_fixed:
      return unary([&](N a) { return fixed_point::from_fixed(a, step.fraction_bits); });
    case Kind::fixed_exp2:
      return unary([&](N a) { return fixed_point::exp2(a, step.fraction_bits); });
    case Kind::fixed_neg:
      return unary([](N a) { return fixed_point::negated(a); });
    case Kind::fixed_rint:
      return unary([&](N a) { return fixed_point::rint(a, step.fraction_bits); });
    case Kind::fixed_add:
      return binary([](N a, N b) { return fixed_point::sum(a, b); });
    case Kind::fixed_sub:
      return binary([](N a, N b) { return fixed_point::sum(a, fixed_point::negated(b)); });
    default:
      throw KdagenBug("a step that is not pointwise came to the pointwise loops");
  }
}

}  // namespace kdagen::evaluator
