// SPDX-License-Identifier: Apache-2.0
// The prelude of texts with fixed-point sums: numbers counted in units of 2^-bits by a 32-bit integer. Their sums are
// exact, so every order of additions gives the same bits. As in <kdagen/device.cuh>, no function here does more than
// one operation of a spec.
//
// The compiler has proven that no sum leaves the integers: every summand is saturated at its proven bound. Integers
// have no NaN: texts carry it beside them, as a float that is added where integers become floats.
#pragma once
#include <kdagen/integers.cuh>

namespace kdagen_device {

template <int bits>
struct Fixed {
  int units;

  KD_FUNCTION Fixed operator-() const { return {-units}; }
  KD_FUNCTION Fixed operator+(Fixed other) const { return {units + other.units}; }
  KD_FUNCTION Fixed operator-(Fixed other) const { return {units - other.units}; }
  KD_FUNCTION Fixed& operator+=(Fixed other) { return *this = *this + other; }
};

/// x as a fixed-point number, for an |x| that is known to fit; 0 for NaN, which the text carries beside the integers.
template <int bits>
KD_FUNCTION Fixed<bits> to_fixed(float x) {
  return {nearest_integer(x * static_cast<float>(1 << bits))};
}

/// The same for any x, saturated at +-limit units.
template <int bits>
KD_FUNCTION Fixed<bits> to_fixed(float x, int limit) {
  const int units = to_fixed<bits>(x).units;
  return {units < -limit ? -limit : units > limit ? limit : units};
}

template <int bits>
KD_FUNCTION float to_float(Fixed<bits> x) {
  return static_cast<float>(x.units) * (1.0f / static_cast<float>(1 << bits));
}

/// The nearest whole number, to even at a tie; the compiler has proven that it fits.
template <int bits>
KD_FUNCTION Fixed<bits> nearest_whole(Fixed<bits> x) {
  const int whole = x.units >> bits, fraction = x.units & ((1 << bits) - 1), half = 1 << (bits - 1);
  const int up = fraction > half || (fraction == half && (whole & 1) != 0) ? 1 : 0;
  return {static_cast<int>(static_cast<unsigned>(whole + up) << bits)};
}

// 2^x with x = whole + fraction is 2^(1 + fraction) * 2^(whole - 1). A float in [1, 2) has 23 bits behind the point,
// where one shift puts the fraction, with the whole part above it, in the place of an exponent. A longer fraction is
// rounded.

/// whole + 126 and fraction where a float has exponent and fraction. For a whole part of -126 to 127; else mod 512.
template <int bits>
KD_FUNCTION unsigned exponent_and_fraction(Fixed<bits> x) {
  const unsigned units = static_cast<unsigned>(x.units);
  if constexpr (bits <= 23)
    return (units + (126u << bits)) << (23 - bits);
  else if constexpr (bits == 24)
    return (units + (126u << 24) + 1) >> 1;
  else
    return static_cast<unsigned>(((x.units >> (bits - 24)) + 1) >> 1) + (126u << 23);
}

/// 2^x where the result is a normal number: the whole part is added to an exponent.
template <int bits>
KD_FUNCTION float approx_exp2_normal(Fixed<bits> x) {
  const unsigned parts = exponent_and_fraction(x), argument = (parts & 0x7fffffu) | 0x3f800000u;
  return __uint_as_float(__float_as_uint(approx_exp2_normal(__uint_as_float(argument))) + parts - argument);
}

/// The same bits, and subnormal numbers, 0 and infinity too.
template <int bits>
KD_FUNCTION float approx_exp2(Fixed<bits> x) {
  int whole = x.units >> bits;
  if constexpr (bits > 23)
    whole += ((x.units & ((1 << bits) - 1)) + (1 << (bits - 24))) >> bits;  // rounded up to 1
  else
    whole = whole < -251 ? -251 : whole > 256 ? 256 : whole;
  const unsigned argument = (exponent_and_fraction(x) & 0x7fffffu) | 0x3f800000u;
  return scale_by_power_of_two(approx_exp2_normal(__uint_as_float(argument)), whole - 1);
}

// ---- Four numbers at a time, in shared memory -------------------------------------------------------------------

template <int bits>
struct alignas(16) FourFixed {
  Fixed<bits> x, y, z, w;
};

template <bool aligned, int bits>
KD_FUNCTION void load4(const Fixed<bits>* from, Fixed<bits>* out) {
  static_assert(aligned, "fixed-point numbers stay in shared memory");
  require_alignment(from, sizeof(FourFixed<bits>));
  const FourFixed<bits> four = *reinterpret_cast<const FourFixed<bits>*>(from);
  out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
}

template <bool aligned, int bits>
KD_FUNCTION void store4(Fixed<bits>* to_where, const Fixed<bits>* in) {
  static_assert(aligned, "fixed-point numbers stay in shared memory");
  require_alignment(to_where, sizeof(FourFixed<bits>));
  *reinterpret_cast<FourFixed<bits>*>(to_where) = FourFixed<bits>{in[0], in[1], in[2], in[3]};
}

// ---- Sums of one number a row ------------------------------------------------------------------------------------

/// Scan at `row`; 0 for an absent row. `chunk` and `whole` as for floats; integers have no order to keep.
template <int chunk, bool exclusive, bool reverse, bool whole, int bits>
KD_FUNCTION Fixed<bits> row_scan(const Fixed<bits>* x, int row, int rows) {
  const int own = exclusive ? 0 : 1;
  const int first = reverse ? row + 1 - own : 0, end = row >= rows ? 0 : reverse ? rows : row + own;
  Fixed<bits> sum = {0};
  for (int r = first; r < end; ++r) sum += x[r];
  return sum;
}

template <int chunk, int bits>
KD_FUNCTION Fixed<bits> row_total(const Fixed<bits>* x, int rows) {
  return row_scan<chunk, true, false, true>(x, rows, rows + 1);
}
}  // namespace kdagen_device

using namespace kdagen_device;
