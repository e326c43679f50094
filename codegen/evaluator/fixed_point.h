// SPDX-License-Identifier: Apache-2.0
// Fixed-point values in the evaluator's three arithmetics.
//
// float: the kernel's own integers, bit for bit; an array of floats holds them by their bits. double: the real number
// that an exact kernel would have, so to_fixed is the identity: the oracle evaluates the spec's function. Tracked: the
// same, with the error of the integers: half a unit 2^-N where a number becomes fixed-point, nothing where they are
// added, subtracted or negated.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "codegen/evaluator/number.h"
#include "codegen/ir/FixedPoint.h"

namespace kdagen::evaluator::fixed_point {

/// Stands for NaN, and stays itself in every sum.
inline constexpr int32_t not_a_number = std::numeric_limits<int32_t>::min();

inline int32_t units(float held) { return std::bit_cast<int32_t>(held); }
inline float hold(int32_t units) { return std::bit_cast<float>(units); }

// ---- float: integers ---------------------------------------------------------------------------------------------
inline float to_fixed(float x, int fraction_bits, int64_t limit) {
  if (std::isnan(x)) return hold(not_a_number);
  double nearest = std::nearbyint(std::ldexp(double(x), fraction_bits));  // to even
  return hold(int32_t(std::clamp(nearest, -double(limit), double(limit))));
}
inline float constant(float, double value, int fraction_bits) {
  return hold(int32_t(std::nearbyint(std::ldexp(value, fraction_bits))));
}
inline float from_fixed(float x, int fraction_bits) {
  return units(x) == not_a_number ? std::numeric_limits<float>::quiet_NaN()
                                  : std::ldexp(float(units(x)), -fraction_bits);
}
inline float negated(float x) { return hold(units(x) == not_a_number ? not_a_number : -units(x)); }
/// The nearest integer, to even at a tie.
inline float rint(float x, int fraction_bits) {
  if (units(x) == not_a_number) return x;
  return hold(int32_t(std::ldexp(std::nearbyint(std::ldexp(double(units(x)), -fraction_bits)), fraction_bits)));
}
inline float sum(float a, float b) {
  bool nan = units(a) == not_a_number || units(b) == not_a_number;
  return hold(nan ? not_a_number : units(a) + units(b));
}
/// 2^(1 + fraction) * 2^(whole - 1), with a fraction in [0, 1) of 23 bits: a longer one is rounded.
inline float exp2(float x, int fraction_bits) {
  if (units(x) == not_a_number) return std::numeric_limits<float>::quiet_NaN();
  int64_t rounded = units(x);
  if (fraction_bits > 23)
    rounded = ((rounded >> (fraction_bits - 24)) + 1) >> 1;
  else
    rounded <<= 23 - fraction_bits;
  int64_t whole = rounded >> 23, fraction = rounded & 0x7fffff;
  return std::ldexp(std::exp2(1 + std::ldexp(float(fraction), -23)), int(whole) - 1);
}

// ---- double and Tracked: real numbers ----------------------------------------------------------------------------
inline double to_fixed(double x, int, int64_t) { return x; }
inline double constant(double, double value, int) { return value; }
inline double from_fixed(double x, int) { return x; }
inline double negated(double x) { return -x; }
inline double rint(double x, int) { return std::nearbyint(x); }
inline double sum(double a, double b) { return a + b; }
inline double exp2(double x, int) { return std::exp2(x); }

inline Tracked to_fixed(Tracked x, int fraction_bits, int64_t) {
  return Tracked(x.value, x.error + underflow(x.value, x.error, std::ldexp(0.5, -fraction_bits)));
}
inline Tracked constant(Tracked, double value, int) { return Tracked(value); }
inline Tracked from_fixed(Tracked x, int) { return rounded(x.value, x.error); }
inline Tracked negated(Tracked x) { return -x; }
inline Tracked rint(Tracked x, int) { return functions::rint(x); }
inline Tracked sum(Tracked a, Tracked b) { return Tracked(a.value + b.value, a.error + b.error); }
/// The instruction's 4, and a fraction rounded to 23 bits: at most 2^-24, ln2 units.
inline Tracked exp2(Tracked x, int) {
  double z = std::exp2(x.value);
  return rounded(z, z * std::numbers::ln2 * x.error, 4.7);
}

/// sigmoid(z)*c from the small side of the sigmoid (codegen/ir/FixedPoint.h).
inline double scaled_sigmoid(double z, double c, int, int64_t) { return functions::sigmoid(z) * c; }
inline float scaled_sigmoid(float z, double c, int fraction_bits, int64_t limit) {
  float rest = z >= 0 ? float(kda::rest_of_constant(c, fraction_bits)) : 0;
  float small = to_fixed(std::fma(functions::sigmoid(-std::fabs(z)), float(c), -rest), fraction_bits, limit);
  return z >= 0 ? sum(constant(z, c, fraction_bits), negated(small)) : small;
}
inline Tracked scaled_sigmoid(Tracked z, double c, int fraction_bits, int64_t limit) {
  Tracked factor(c, std::fabs(c - double(float(c)))), side = functions::sigmoid(-functions::abs(z));
  double rest = z.value >= 0 ? kda::rest_of_constant(c, fraction_bits) : 0;
  Tracked small = to_fixed(multiply_add(side, factor, Tracked(-rest, std::fabs(rest) * 0x1p-24)), fraction_bits, limit);
  return z.value < 0 ? small : Tracked(functions::sigmoid(z.value) * c, small.error);
}

/// Whether one of the rows is the integer that stands for NaN. A kernel carries NaN beside its sums, one a column, so
/// all sums of the column are NaN.
inline bool has_nan(const float* x, int64_t stride, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r)
    if (units(x[r * stride]) == not_a_number) return true;
  return false;
}
template <class Number>
bool has_nan(const Number*, int64_t, int64_t) {
  return false;
}  // real numbers have their own

/// Sums over rows, in any order: exclusive and reverse as orders::scan.
template <class Number>
void scan(const Number* x, Number* result, int64_t stride, int64_t rows, bool exclusive, bool reverse) {
  Number total = has_nan(x, stride, rows) ? to_fixed(Number(NAN), 0, 0) : constant(Number(0), 0, 0);
  for (int64_t k = 0; k < rows; ++k) {
    int64_t at = (reverse ? rows - 1 - k : k) * stride;
    if (exclusive) result[at] = total;
    total = sum(total, x[at]);
    if (!exclusive) result[at] = total;
  }
}
template <class Number>
Number total(const Number* x, int64_t stride, int64_t rows) {
  Number total = constant(Number(0), 0, 0);
  for (int64_t r = 0; r < rows; ++r) total = sum(total, x[r * stride]);
  return total;
}

}  // namespace kdagen::evaluator::fixed_point
