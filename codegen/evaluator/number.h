// SPDX-License-Identifier: Apache-2.0
// What an evaluation computes with: float, double, or Tracked, a double with a running error bound. Every pointwise op
// of the dialect is one function here, with its error rule.
//
// Running error analysis: beside a value z = f(x_1, ..) stands e(z) >= |z computed in float32 - z|, to first order
//   e(z) = sum_i |df/dx_i| e(x_i) + c u |z| + min(|z~|, tiny),    u = 2^-24, tiny = 2^-150,
// df/dx_i at its largest within e(x_i): a bf16 that rounds the other way, or a comparison decided otherwise, is no
// small error; where c is the op's own error in units of u: 1 for a correctly rounded op, 4 for 2^x, 2 for 1/x and 3.04
// for rsqrt (the approximate instructions' 2^-22, 2^-23, 2^-22.4), 2 to 8 for library functions; 0 for neg, abs,
// select, min, max, relu, clamp, comparisons, shifts and stored inputs. min(|z~|, tiny) covers subnormal results, z~
// the largest that float32 may have in z's place, and leaves an exact 0 exact. Sums add u |partial sum| for each
// addition, in the order in which they are made. Where x decides between branches (max, relu, clamp, comparisons), any
// branch within reach of the error counts.
#pragma once
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "codegen/evaluator/storage.h"

namespace kdagen::evaluator {

inline constexpr double unit_roundoff = 0x1p-24;
inline constexpr double tiny_roundoff = 0x1p-150;
/// float64 against float64: errors count units of 2^-24, there they are 2^-53; four bits of room.
inline constexpr double f64_factor = 16 * 0x1p-29;

struct Tracked {
  double value = 0;
  double error = 0;

  Tracked() = default;
  explicit Tracked(double value, double error = 0) : value(value), error(error) {}
};

/// What rounding to a subnormal costs at most: half their spacing, or the whole number, which is itself off by `error`.
inline double underflow(double value, double error, double tiny = tiny_roundoff) {
  return std::min(std::fabs(value) + error, tiny);
}

/// A result with the propagated error and `c` units of its own.
inline Tracked rounded(double value, double propagated, double c = 1) {
  return Tracked(value, propagated + (c * unit_roundoff * std::fabs(value) + underflow(value, propagated)));
}

inline Tracked operator+(Tracked a, Tracked b) { return rounded(a.value + b.value, a.error + b.error); }
inline Tracked operator-(Tracked a, Tracked b) { return rounded(a.value - b.value, a.error + b.error); }
inline Tracked operator-(Tracked a) { return Tracked(-a.value, a.error); }
/// The error of a*b before its own rounding: |a| e(b) + |b| e(a) + e(a) e(b).
inline double product_error(Tracked a, Tracked b) {
  return std::fabs(a.value) * b.error + (std::fabs(b.value) + b.error) * a.error;
}
inline Tracked operator*(Tracked a, Tracked b) { return rounded(a.value * b.value, product_error(a, b)); }
/// 1/(1-r), the largest a reciprocal can grow by where its operand is off by the part r. An operand that may be 0
/// leaves no bound at all, and no fault would be seen behind it: there 16 is taken.
inline double growth(double r) { return r <= 0.9375 ? 1 / (1 - r) : 16; }
inline double relative_error(Tracked x) { return x.error == 0 ? 0 : x.error / std::fabs(x.value); }
/// e = (e(a) + |a/b| e(b)) / |b|, grown; an exact 0 stays one.
inline Tracked operator/(Tracked a, Tracked b) {
  const double z = a.value / b.value, by_slope = (a.error + std::fabs(z) * b.error) / std::fabs(b.value);
  return rounded(z, by_slope == 0 ? 0 : by_slope * growth(relative_error(b)));
}
inline Tracked multiply_add(Tracked x, Tracked y, Tracked c) {
  return rounded(x.value * y.value + c.value, product_error(x, y) + c.error);
}

namespace functions {

inline double plain(double x) { return x; }
inline double plain(float x) { return x; }
inline double plain(Tracked x) { return x.value; }
inline double exact(double x) { return x; }
inline float exact(float x) { return x; }
inline Tracked exact(Tracked x) { return Tracked(x.value); }

// ---- float and double --------------------------------------------------------------------------------------------
template <class Real>
Real exp2(Real x) {
  return std::exp2(x);
}
template <class Real>
Real exp(Real x) {
  return std::exp(x);
}
template <class Real>
Real log(Real x) {
  return std::log(x);
}
template <class Real>
Real log1p(Real x) {
  return std::log1p(x);
}
template <class Real>
Real sqrt(Real x) {
  return std::sqrt(x);
}
template <class Real>
Real rsqrt(Real x) {
  return Real(1) / std::sqrt(x);
}
template <class Real>
Real rcp(Real x) {
  return Real(1) / x;
}
/// With e = e^-|x|: 1/(1+e) for x >= 0, e/(1+e) below.
template <class Real>
Real sigmoid(Real x) {
  Real e = std::exp(-std::fabs(x)), r = Real(1) / (Real(1) + e);
  return x < 0 ? e * r : r;
}
/// e/(1+e)^2 with e = e^-|x|: right at saturation.
template <class Real>
Real sigmoid_grad(Real x) {
  Real e = std::exp(-std::fabs(x)), r = Real(1) / (Real(1) + e);
  return e * r * r;
}
template <class Real>
Real softplus(Real x) {
  return std::fmax(x, Real(0)) + std::log1p(std::exp(-std::fabs(x)));
}
template <class Real>
Real tanh(Real x) {
  return std::tanh(x);
}
template <class Real>
Real relu(Real x) {
  return x < 0 ? Real(0) : x;
}
template <class Real>
Real abs(Real x) {
  return std::fabs(x);
}
template <class Real>
Real pow(Real a, Real b) {
  return std::pow(a, b);
}
template <class Real>
Real min(Real a, Real b) {
  return b < a ? b : a;
}
template <class Real>
Real max(Real a, Real b) {
  return a < b ? b : a;
}
template <class Real>
Real clamp(Real x, double lower, double upper) {
  return max(min(x, Real(upper)), Real(lower));
}
template <class Real>
Real rint(Real x) {
  return std::nearbyint(x);
}
template <class Real>
Real scale_exactly(Real x, double power_of_two) {
  return x * Real(power_of_two);
}
template <class Real>
Real round(Real x, const Storage& storage) {
  return Real(round_to(x, storage));
}

// ---- with a running error ----------------------------------------------------------------------------------------
/// How far a function moves from z within the error, by its slope's rule; where that says much, or is 0 times infinity,
/// by `ends`, its lowest and highest value there (differences of close numbers would be too coarse).
template <class Ends>
double reach(double z, double by_slope, Ends ends) {
  if (by_slope <= 0x1p-20 * std::fabs(z)) return by_slope;
  const auto [lowest, highest] = ends();
  return std::max(highest - z, z - lowest);
}
/// The same for a function that grows.
template <class Function>
double reach(Function f, double z, Tracked x, double by_slope) {
  return reach(z, by_slope, [&] { return std::pair(f(x.value - x.error), f(x.value + x.error)); });
}
inline Tracked exp2(Tracked x) {
  double z = std::exp2(x.value);
  return rounded(z, reach(exp2<double>, z, x, z * std::expm1(std::numbers::ln2 * x.error)), 4);
}
inline Tracked exp(Tracked x) {
  double z = std::exp(x.value);
  return rounded(z, reach(exp<double>, z, x, z * std::expm1(x.error)), 4);
}
inline Tracked log(Tracked x) { return rounded(std::log(x.value), relative_error(x) * growth(relative_error(x)), 2); }
inline Tracked log1p(Tracked x) {
  const double r = x.error / std::fabs(1 + x.value);
  return rounded(std::log1p(x.value), r * growth(r), 2);
}
/// |sqrt(x+e) - sqrt(x)| <= sqrt(e) also where the derivative is infinite.
inline Tracked sqrt(Tracked x) {
  double z = std::sqrt(x.value);
  return rounded(z, x.error == 0 ? 0 : std::min(x.error / (2 * z), std::sqrt(x.error)));
}
inline Tracked rsqrt(Tracked x) {
  double z = 1 / std::sqrt(x.value);
  const double r = growth(relative_error(x));
  return rounded(z, 0.5 * z * z * z * x.error * r * std::sqrt(r), 3.04);
}
inline Tracked rcp(Tracked x) {
  double z = 1 / x.value;
  return rounded(z, z * z * x.error * growth(relative_error(x)), 2);
}
/// e = 2^(-|x| log2e) is off by (4 + 2|x|)u: instruction, rounded constant and rounded product. d ln(sigmoid)/d ln(e)
/// is sigmoid(-x) in size; 1 + e, its reciprocal and the product add 1 + 2 + 1.
inline Tracked sigmoid(Tracked x) {
  double z = sigmoid(x.value), other = sigmoid(-x.value);
  const double by_slope = z * std::expm1(std::min(1.0, other * std::exp(x.error)) * x.error);
  return rounded(z, reach(sigmoid<double>, z, x, by_slope), other * (4 + 2 * std::fabs(x.value)) + 4);
}
/// sigmoid'' = sigmoid' (1 - 2 sigmoid) = -sigmoid' tanh(x/2), and that tanh is also d ln(e r^2)/d ln(e).
inline Tracked sigmoid_grad(Tracked x) {
  double z = sigmoid_grad(x.value), slope = std::fabs(std::tanh(0.5 * x.value));
  const double size = std::fabs(x.value), by_slope = z * std::expm1(std::min(1.0, slope + x.error) * x.error);
  const auto ends = [&] {
    return std::pair(sigmoid_grad(size + x.error), sigmoid_grad(std::max(size - x.error, 0.0)));
  };
  return rounded(z, reach(z, by_slope, ends), slope * (4 + 2 * size) + 8);
}
/// The log1p part is off by 2u of itself and by e/(1+e) times e's relative error.
inline Tracked softplus(Tracked x) {
  double size = std::fabs(x.value), e = std::exp(-size), part = std::log1p(e);
  double own = unit_roundoff * (2 * part + e / (1 + e) * (4 + 2 * size));
  return rounded(std::max(x.value, 0.0) + part, sigmoid(x.value + x.error) * x.error + own);
}
inline Tracked tanh(Tracked x) {
  double z = std::tanh(x.value);
  return rounded(z, reach(tanh<double>, z, x, std::min(1.0, (1 - z * z) * std::exp(2 * x.error)) * x.error), 4);
}
inline Tracked relu(Tracked x) { return Tracked(relu(x.value), x.value + x.error < 0 ? 0.0 : x.error); }
inline Tracked abs(Tracked x) { return Tracked(std::fabs(x.value), x.error); }
inline Tracked pow(Tracked a, Tracked b) {
  double z = std::pow(a.value, b.value);
  double by_base = a.error == 0   ? 0
                   : a.value == 0 ? std::pow(a.error, b.value)
                                  : std::fabs(b.value * z / a.value) * a.error;
  double by_exponent = b.error == 0 || z == 0 ? 0 : std::fabs(z * std::log(std::fabs(a.value))) * b.error;
  return rounded(z, by_base + by_exponent, 8);
}
/// Where both are within reach, the larger is a number of its own: neither equals it for sure (equal()).
inline Tracked max(Tracked a, Tracked b) {
  double gap = a.value - b.value, reach = a.error + b.error;
  if (std::fabs(gap) <= reach) return Tracked(max(a.value, b.value), std::max(a.error, b.error) * (1 + 0x1p-10));
  return gap < 0 ? b : a;
}
inline Tracked min(Tracked a, Tracked b) { return -max(-a, -b); }
inline Tracked clamp(Tracked x, double lower, double upper) {
  bool outside = x.value + x.error < lower || x.value - x.error > upper;
  return Tracked(clamp(x.value, lower, upper), outside ? 0 : x.error);
}
/// Near a tie another program may take the neighbour. The integer is an anchor: stored numbers are compared as if both
/// had the same one, and then it makes no difference.
inline Tracked rint(Tracked x) { return Tracked(std::nearbyint(x.value)); }
/// Exact among the normal numbers.
inline Tracked scale_exactly(Tracked x, double power_of_two) {
  const double factor = std::fabs(power_of_two), z = x.value * power_of_two, error = x.error * factor;
  const bool normal = factor >= 1 || std::fabs(z) - error >= 0x1p-126;
  return Tracked(z, normal ? error : error + underflow(z, error));
}
/// Both programs round: they differ only if a rounding boundary lies within the error, and then by the spacing of the
/// storage type, not by the error. Rounding is monotonic, so the two ends tell exactly how far apart they can be.
/// A boundary so near that float64 may take either side counts as such (decided()), but not a number that lies on it,
/// as exact products do: that another program has it elsewhere is seen there.
inline Tracked round(Tracked x, const Storage& storage) {
  const double z = round_to(x.value, storage), near = f64_factor * x.error;
  if (x.error == 0) return Tracked(z);
  const double error = std::max(round_to(x.value + x.error, storage) - z, z - round_to(x.value - x.error, storage));
  Storage finer = storage;
  ++finer.precision;
  const bool either = storage.precision > 0 && round_to(x.value - near, storage) != round_to(x.value + near, storage);
  return Tracked(z, either && round_to(x.value, finer) != x.value ? error / f64_factor : error);
}
/// Only the float32 program rounds.
inline Tracked round_in_float_only(Tracked x, const Storage& storage) {
  return Tracked(x.value, x.error + storage.unit() * std::fabs(x.value) + underflow(x.value, x.error, storage.tiny()));
}

/// Truth values: an error of 1 where the float32 program may decide otherwise; of 2^25, which leaves 1 in units of
/// float64, where another program in float64 may.
inline Tracked decided(bool value, Tracked a, Tracked b) {
  const double reach = a.error + b.error, gap = std::fabs(a.value - b.value);
  return Tracked(value, reach == 0 || gap > reach ? 0 : gap > f64_factor * reach ? 1 : 1 / f64_factor);
}
inline Tracked less(Tracked a, Tracked b) { return decided(a.value < b.value, a, b); }
inline Tracked less_equal(Tracked a, Tracked b) { return decided(a.value <= b.value, a, b); }
/// Equal numbers of equal errors are taken for the same number.
inline Tracked equal(Tracked a, Tracked b) {
  return a.value == b.value && a.error == b.error ? Tracked(1) : decided(a.value == b.value, a, b);
}
inline Tracked select(Tracked condition, Tracked a, Tracked b) {
  const Tracked taken = condition.value != 0 ? a : b;
  return condition.error == 0
             ? taken
             : Tracked(taken.value, condition.error * std::fabs(a.value - b.value) + std::max(a.error, b.error));
}

template <class Number>
Number less(Number a, Number b) {
  return Number(plain(a) < plain(b) ? 1 : 0);
}
template <class Number>
Number less_equal(Number a, Number b) {
  return Number(plain(a) <= plain(b) ? 1 : 0);
}
template <class Number>
Number equal(Number a, Number b) {
  return Number(plain(a) == plain(b) ? 1 : 0);
}
template <class Number>
Number isnan(Number x) {
  return Number(std::isnan(plain(x)) ? 1 : 0);
}
template <class Number>
Number select(Number condition, Number a, Number b) {
  return plain(condition) != 0 ? a : b;
}

}  // namespace functions
}  // namespace kdagen::evaluator
