// SPDX-License-Identifier: Apache-2.0
// What a generator needs to know of a value before it is computed: its axes, how large it can get, whether an exponent
// of it can be proven. The functions have the names of the DSL's, so that one expression is written once and means
// both.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>

#include <kdagen/kdagen.h>

namespace kdagen::fuzz {

struct Interval {
  double low = 0, high = 0;

  double size() const { return std::max(std::fabs(low), std::fabs(high)); }
  bool inside(double from, double to) const { return low >= from && high <= to; }
};
inline constexpr double unbounded = std::numeric_limits<double>::infinity();
inline constexpr Interval anything{-unbounded, unbounded};

/// An axis, as bits of a set and with its length.
struct AxisMark {
  unsigned bit = 0;
  double extent = 1;
};
/// Rows for which one anchor by sub-chunk serves.
inline constexpr double rows_of_subchunk = 16;
inline constexpr unsigned rows_bit = 1, head_bit = 2, feature_bit = 4;

/// The first exponential, of base 2, among the factors of a product, and whether its exponent varies from row to row.
enum class Decay { none, without_rows, of_rows };

struct Estimate {
  unsigned axes = 0;
  bool tile = false;  ///< depends on an input or a row's number
  bool valid = true;  ///< false: not to be used, an operation would leave its domain or an axis is not there
  bool held = false;  ///< depends on a detached value: a comparison with it may sit on a kink at the base point
  bool flat = false;  ///< elements may be equal by mathematics, so that rounding decides which is the largest
  Interval likely;    ///< where normal inputs put it
  Interval proven;    ///< what declared bounds promise
  Decay decay = Decay::none;
  double step = unbounded;  ///< most by which it changes inside a sub-chunk of rows, as sums promise

  /// The same, as sums or bounds promise.
  double change() const { return std::min(step, proven.high - proven.low); }

  Estimate() = default;
  Estimate(double x) : flat(true), likely{x, x}, proven{x, x} {}
  Estimate(const Constant& x) : Estimate(x.value()) {}
};
/// Result of a comparison.
struct Truth {
  Estimate of;
};

namespace estimates {

inline Interval tidy(Interval x) {
  return {std::isnan(x.low) ? -unbounded : x.low, std::isnan(x.high) ? unbounded : x.high};
}
inline Interval hull(std::initializer_list<double> corners) {
  for (double x : corners)
    if (std::isnan(x)) return anything;
  return {std::min(corners), std::max(corners)};
}

inline Estimate joined(const Estimate& a, const Estimate& b) {
  Estimate result;
  result.axes = a.axes | b.axes;
  result.tile = a.tile || b.tile;
  result.valid = a.valid && b.valid;
  result.held = a.held || b.held;
  result.flat = a.flat && b.flat;
  return result;
}

/// A function that is monotonic, or otherwise takes intervals to intervals.
inline Estimate mapped(Estimate a, const std::function<Interval(Interval)>& map) {
  a.likely = tidy(map(a.likely));
  a.proven = tidy(map(a.proven));
  a.decay = Decay::none, a.step = unbounded;
  return a;
}
template <class Function>
Estimate rising(const Estimate& a, Function f) {
  return mapped(a, [&](Interval x) { return Interval{f(x.low), f(x.high)}; });
}
/// The same within a domain that the likely values must keep to.
template <class Function>
Estimate rising_from(double least, Estimate a, Function f) {
  a.valid = a.valid && a.likely.low >= least;
  return mapped(
      a, [&](Interval x) { return Interval{x.low > least ? f(x.low) : -unbounded, f(std::max(x.high, least))}; });
}
template <class Function>
Estimate combined(const Estimate& a, const Estimate& b, Function f) {
  Estimate result = joined(a, b);
  result.likely = f(a.likely, b.likely);
  result.proven = f(a.proven, b.proven);
  return result;
}
template <class Function>
Estimate by_corners(const Estimate& a, const Estimate& b, Function f) {
  return combined(a, b, [&](Interval x, Interval y) {
    return hull({f(x.low, y.low), f(x.low, y.high), f(x.high, y.low), f(x.high, y.high)});
  });
}
/// A place where derivatives jump must not be where a detached value holds it.
inline Estimate kinked(Estimate a) {
  a.valid = a.valid && !a.held;
  return a;
}
/// Exponents must be proven; 2^40 is more than any storage needs.
inline Estimate exponential(Estimate a, double unit) {
  a.valid = a.valid && a.proven.size() * unit <= 40;
  return rising(a, [&](double x) { return std::exp2(x * unit); });
}
inline Estimate over(Estimate a, unsigned bits, bool removed) {
  a.valid = a.valid && (a.axes & bits) == bits;
  if (removed) a.axes &= ~bits;
  a.decay = Decay::none, a.step = unbounded;
  return a;
}

}  // namespace estimates

inline Estimate operator-(const Estimate& a) {
  Estimate result = estimates::mapped(a, [](Interval x) { return Interval{-x.high, -x.low}; });
  result.decay = a.decay, result.step = a.step;
  return result;
}
inline Estimate operator+(const Estimate& a, const Estimate& b) {
  Estimate result = estimates::combined(
      a, b, [](Interval x, Interval y) { return estimates::tidy({x.low + y.low, x.high + y.high}); });
  result.step = a.change() + b.change();
  return result;
}
inline Estimate operator-(const Estimate& a, const Estimate& b) { return a + -b; }
inline Estimate operator*(const Estimate& a, const Estimate& b) {
  Estimate result = estimates::by_corners(a, b, [](double x, double y) { return x * y; });
  result.decay = a.decay == Decay::none ? b.decay : a.decay;
  if (a.axes == 0 && a.proven.low == a.proven.high) result.step = a.proven.size() * b.step;
  if (b.axes == 0 && b.proven.low == b.proven.high) result.step = b.proven.size() * a.step;
  return result;
}
inline Estimate operator/(const Estimate& a, Estimate b) {
  b.valid = b.valid && (b.likely.low > 0.05 || b.likely.high < -0.05);
  return estimates::combined(a, b, [](Interval x, Interval y) {
    if (!(y.low > 0) && !(y.high < 0)) return anything;
    return estimates::hull({x.low / y.low, x.low / y.high, x.high / y.low, x.high / y.high});
  });
}

inline Estimate exp2(const Estimate& a) {
  Estimate result = estimates::exponential(a, 1);
  result.decay = a.axes & rows_bit ? Decay::of_rows : Decay::without_rows;
  return result;
}
inline Estimate exp(const Estimate& a) { return estimates::exponential(a, log2e.value()); }
inline Estimate log(const Estimate& a) {
  return estimates::rising_from(0.02, a, [](double x) { return std::log(x); });
}
inline Estimate log1p(const Estimate& a) {
  return estimates::rising_from(-0.95, a, [](double x) { return std::log1p(x); });
}
inline Estimate sqrt(const Estimate& a) {
  return estimates::rising_from(0.01, a, [](double x) { return std::sqrt(x); });
}
inline Estimate rsqrt(const Estimate& a) {
  return -estimates::rising_from(0.01, a, [](double x) { return -1 / std::sqrt(x); });
}
inline Estimate sigmoid(const Estimate& a) {
  return estimates::rising(a, [](double x) { return 1 / (1 + std::exp(-x)); });
}
inline Estimate softplus(const Estimate& a) {
  return estimates::rising(a, [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); });
}
inline Estimate tanh(const Estimate& a) {
  return estimates::rising(a, [](double x) { return std::tanh(x); });
}
inline Estimate relu(const Estimate& a) {
  return estimates::kinked(estimates::rising(a, [](double x) { return std::max(x, 0.0); }));
}
inline Estimate clamp(const Estimate& a, double lower, double upper) {
  return estimates::kinked(estimates::rising(a, [=](double x) { return std::clamp(x, lower, upper); }));
}
inline Estimate abs(const Estimate& a) {
  return estimates::kinked(estimates::mapped(a, [](Interval x) {
    const bool around = x.low < 0 && x.high > 0;
    return Interval{around ? 0 : std::min(std::fabs(x.low), std::fabs(x.high)), x.size()};
  }));
}
inline Estimate pow(const Estimate& a, const Estimate& b) {
  Estimate result = estimates::by_corners(a, b, [](double x, double y) { return std::pow(x, y); });
  const bool square = b.likely.low == 2 && b.likely.high == 2;
  if (square) result = estimates::mapped(result, [](Interval x) { return Interval{0, x.size()}; });
  result.valid = result.valid && (square || a.likely.low > 0.05);
  return result;
}
inline Estimate min(const Estimate& a, const Estimate& b) {
  return estimates::kinked(estimates::combined(
      a, b, [](Interval x, Interval y) { return Interval{std::min(x.low, y.low), std::min(x.high, y.high)}; }));
}
inline Estimate max(const Estimate& a, const Estimate& b) { return -min(-a, -b); }
inline Truth operator<(const Estimate& a, const Estimate& b) { return {estimates::kinked(estimates::joined(a, b))}; }
inline Truth operator<=(const Estimate& a, const Estimate& b) { return a < b; }
inline Truth operator>(const Estimate& a, const Estimate& b) { return a < b; }
inline Truth operator>=(const Estimate& a, const Estimate& b) { return a < b; }
inline Truth equal(const Estimate& a, const Estimate& b) { return a < b; }
inline Truth isnan(const Estimate& a) { return {a}; }
inline Estimate select(const Truth& condition, const Estimate& a, const Estimate& b) {
  Estimate result = estimates::combined(
      a, b, [](Interval x, Interval y) { return Interval{std::min(x.low, y.low), std::max(x.high, y.high)}; });
  const Estimate all = estimates::joined(result, condition.of);
  result.axes = all.axes, result.tile = all.tile, result.valid = all.valid, result.held = all.held,
  result.flat = all.flat;
  return result;
}
inline Estimate round(Estimate a, DType) {
  a.decay = Decay::none, a.step = unbounded;
  return a;
}
inline Estimate detach(Estimate a) {
  a.held = true;
  a.decay = Decay::none;
  return a;
}

inline Estimate sum(const Estimate& a, AxisMark axis) {
  const Estimate result = estimates::over(a, axis.bit, true);
  return estimates::mapped(result, [&](Interval x) {
    return Interval{std::min(x.low, axis.extent * x.low), std::max(x.high, axis.extent * x.high)};
  });
}
inline Estimate sum(Estimate a, std::initializer_list<AxisMark> axes) {
  for (const AxisMark& axis : axes) a = sum(a, axis);
  return a;
}
inline Estimate max(const Estimate& a, AxisMark axis) {
  Estimate result = estimates::kinked(estimates::over(a, axis.bit, true));
  result.valid = result.valid && !a.flat;
  return result;
}
inline Estimate max(Estimate a, std::initializer_list<AxisMark> axes) {
  for (const AxisMark& axis : axes) a = max(a, axis);
  return a;
}
inline Estimate mean(const Estimate& a, AxisMark axis) { return sum(a, axis) * (1 / axis.extent); }
/// A row's numbers over their own root mean square are at most sqrt(extent).
inline Estimate normed(const Estimate& a, AxisMark axis, double most) {
  return estimates::mapped(estimates::over(a, axis.bit, false), [&](Interval x) {
    return Interval{std::max(std::min(x.low, 0.0) * 1e3, -most), std::min(std::max(x.high, 0.0) * 1e3, most)};
  });
}
inline Estimate l2norm(const Estimate& a, AxisMark axis, double = 1e-6) { return normed(a, axis, 1); }
inline Estimate rmsnorm(const Estimate& a, AxisMark axis, double = 1e-6) {
  return normed(a, axis, std::sqrt(axis.extent));
}
inline Estimate softmax(const Estimate& a, AxisMark axis) {
  Estimate result = estimates::over(a, axis.bit, false);
  result.likely = {0, 1};
  result.proven = anything;
  result.flat = true;  // one row, or one column that outweighs the others
  return estimates::kinked(result);
}
inline Estimate logsigmoid(const Estimate& a) { return -softplus(-a); }
inline Estimate silu(const Estimate& a) { return a * sigmoid(a); }

inline Estimate cumsum(const Estimate& a, AxisMark axis, Scan scan = {}) {
  Estimate result = estimates::over(a, axis.bit, false);
  const Estimate whole = sum(a, axis);
  result.likely = whole.likely, result.proven = whole.proven;
  if (scan.exclusive)
    result =
        estimates::mapped(result, [](Interval x) { return Interval{std::min(x.low, 0.0), std::max(x.high, 0.0)}; });
  if (!scan.reverse) result.step = rows_of_subchunk * (std::max(a.proven.high, 0.0) - std::min(a.proven.low, 0.0));
  return result;
}
inline Estimate total(const Estimate& a, AxisMark axis) { return sum(a, axis); }
inline Estimate last(const Estimate& a, AxisMark axis) { return estimates::over(a, axis.bit, true); }
inline Estimate shift(const Estimate& a, AxisMark axis, long long amount, double fill = 0) {
  Estimate result = estimates::over(a, axis.bit, false);
  result.valid = result.valid && amount != 0 && std::fabs(double(amount)) < axis.extent;
  return estimates::mapped(result, [&](Interval x) { return Interval{std::min(x.low, fill), std::max(x.high, fill)}; });
}
inline Estimate index(AxisMark axis) {
  Estimate result;
  result.axes = axis.bit;
  result.tile = axis.bit == rows_bit;
  result.likely = result.proven = {0, axis.extent - 1};
  return result;
}

}  // namespace kdagen::fuzz
