// SPDX-License-Identifier: Apache-2.0
// The prelude of texts with fixed-point sums: numbers counted in units of 2^-bits by a 32-bit integer. Their sums are
// exact, so every order of additions gives the same bits. As in <kdagen/device.cuh>, no function here does more than one
// operation of a spec.
//
// The compiler has proven that no sum leaves the integers: every summand is saturated at its proven bound.
#pragma once
#include <kdagen/device.cuh>

namespace kdagen_device {

/// A float that becomes NaN in a sum makes everything that depends on it NaN, as among floats.
constexpr int fixed_nan = -2147483647 - 1;

template <int bits>
struct Fixed {
  int units;

  KD_FUNCTION bool is_nan() const { return units == fixed_nan; }
  KD_FUNCTION Fixed operator-() const { return {is_nan() ? fixed_nan : -units}; }
  KD_FUNCTION Fixed operator+(Fixed other) const {
    return {is_nan() || other.is_nan() ? fixed_nan : units + other.units};
  }
  KD_FUNCTION Fixed operator-(Fixed other) const { return *this + -other; }
  KD_FUNCTION Fixed& operator+=(Fixed other) { return *this = *this + other; }
};

/// The nearest integer, ties to even, saturated; 0 for NaN.
KD_FUNCTION int nearest_integer(float x) {
#ifndef KDAGEN_EMULATOR
  int y;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
#else
  if (!(x < 2147483648.0f)) return x >= 2147483648.0f ? 2147483647 : 0;
  return x < -2147483648.0f ? -2147483647 - 1 : static_cast<int>(rintf(x));
#endif
}

/// x as a fixed-point number, saturated at +-limit units.
template <int bits>
KD_FUNCTION Fixed<bits> to_fixed(float x, int limit) {
  const int units = nearest_integer(x * static_cast<float>(1 << bits));
  return {x != x ? fixed_nan : units < -limit ? -limit : units > limit ? limit : units};
}

template <int bits>
KD_FUNCTION float to_float(Fixed<bits> x) {
  const float y = static_cast<float>(x.units) * (1.0f / static_cast<float>(1 << bits));
  return x.is_nan() ? __uint_as_float(0x7fc00000u) : y;
}

/// The part of x behind the point, in [0, 1), and the whole number below x.
template <int bits>
KD_FUNCTION float fraction_of(Fixed<bits> x) {
  return static_cast<float>(x.units & ((1 << bits) - 1)) * (1.0f / static_cast<float>(1 << bits));
}
template <int bits>
KD_FUNCTION int whole_of(Fixed<bits> x) { return x.units >> bits; }

/// 2^x as 2^fraction * 2^whole, the latter exact.
template <int bits>
KD_FUNCTION float approx_exp2(Fixed<bits> x) {
  int whole = whole_of(x);
  if (bits < 24) whole = whole < -252 ? -252 : whole > 255 ? 255 : whole;
  const float y = scale_by_power_of_two(approx_exp2_normal(fraction_of(x)), whole);
  return x.is_nan() ? __uint_as_float(0x7fc00000u) : y;
}

/// The same bits where the result is a normal number: 2^whole goes into the exponent.
template <int bits>
KD_FUNCTION float approx_exp2_normal(Fixed<bits> x) {
  const float y = approx_exp2_normal(fraction_of(x));
  const unsigned scaled = __float_as_uint(y) + (static_cast<unsigned>(whole_of(x)) << 23);
  return __uint_as_float(x.is_nan() ? 0x7fc00000u : scaled);
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
