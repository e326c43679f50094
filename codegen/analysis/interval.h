// SPDX-License-Identifier: Apache-2.0
// Closed intervals of real numbers, possibly unbounded. An infinite end says "no bound known"; the values themselves
// are taken to be finite, so 0 times an unbounded interval is 0.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

namespace kdagen {

struct Interval {
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  double lo = -infinity, hi = infinity;

  static Interval everything() { return {}; }
  static Interval point(double x) { return {x, x}; }
  bool bounded() const { return lo > -infinity && hi < infinity; }
  bool contains(double x) const { return lo <= x && x <= hi; }
  /// The largest absolute value.
  double magnitude() const { return std::max(std::abs(lo), std::abs(hi)); }
  bool operator==(const Interval&) const = default;
};

inline Interval hull(Interval a, Interval b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }
/// The part in common; `a` if there is none (then one of them rests on broken promises).
inline Interval intersect(Interval a, Interval b) {
  Interval both{std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  return both.lo <= both.hi ? both : a;
}
inline Interval operator-(Interval a) { return {-a.hi, -a.lo}; }
inline Interval operator+(Interval a, Interval b) { return {a.lo + b.lo, a.hi + b.hi}; }
inline Interval operator-(Interval a, Interval b) { return a + -b; }

namespace interval_detail {
inline double product(double a, double b) { return a == 0 || b == 0 ? 0.0 : a * b; }
}  // namespace interval_detail

inline Interval operator*(Interval a, Interval b) {
  using interval_detail::product;
  double p = product(a.lo, b.lo), q = product(a.lo, b.hi), r = product(a.hi, b.lo), s = product(a.hi, b.hi);
  return {std::min(std::min(p, q), std::min(r, s)), std::max(std::max(p, q), std::max(r, s))};
}
inline Interval reciprocal(Interval a) {
  if (a.lo > 0 || a.hi < 0) return {1 / a.hi, 1 / a.lo};
  if (a.lo == 0) return {1 / a.hi, Interval::infinity};
  if (a.hi == 0) return {-Interval::infinity, 1 / a.lo};
  return {};
}
/// {x^2}
inline Interval square(Interval a) {
  double m = a.magnitude(), least = a.contains(0) ? 0.0 : std::min(std::abs(a.lo), std::abs(a.hi));
  return {least * least, m * m};
}
/// The image under a function that never decreases.
template <typename Function>
Interval increasing(Interval a, Function f) {
  return {f(a.lo), f(a.hi)};
}
/// A sum of between `fewest` and `most` numbers of the interval.
inline Interval sum_of(Interval a, double fewest, double most) {
  using interval_detail::product;
  return {product(a.lo, a.lo < 0 ? most : fewest), product(a.hi, a.hi > 0 ? most : fewest)};
}

}  // namespace kdagen
