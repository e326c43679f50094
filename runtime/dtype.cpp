// SPDX-License-Identifier: Apache-2.0
#include "runtime/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace kdagen::runtime {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::int64_t size;
};

constexpr std::array<DTypeRow, 7> dtype_rows{{{DType::f64, "f64", 8},
                                              {DType::f32, "f32", 4},
                                              {DType::bf16, "bf16", 2},
                                              {DType::fp16, "fp16", 2},
                                              {DType::i64, "i64", 8},
                                              {DType::i32, "i32", 4},
                                              {DType::i8, "i8", 1}}};

template <class T>
T load(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

template <class T>
void store(void* address, T value) {
  std::memcpy(address, &value, sizeof value);
}

// A 16-bit float with `mantissa` explicit bits and the smallest normal exponent `min_exponent`; `max_exponent` is the
// largest finite one.
struct HalfFormat {
  int mantissa, min_exponent, max_exponent;
};
constexpr HalfFormat bf16_format{7, -126, 127};
constexpr HalfFormat fp16_format{10, -14, 15};

double decode(HalfFormat format, std::uint16_t bits) {
  const int exponent_bits = 15 - format.mantissa;
  const int field = (bits >> format.mantissa) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << format.mantissa) - 1);
  double magnitude;
  if (field == (1 << exponent_bits) - 1)
    magnitude = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  else if (field == 0)
    magnitude = std::ldexp(fraction, format.min_exponent - format.mantissa);
  else
    magnitude = std::ldexp(fraction + (1 << format.mantissa), format.min_exponent + field - 1 - format.mantissa);
  return bits & 0x8000 ? -magnitude : magnitude;
}

std::uint16_t encode(HalfFormat format, double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const int all_ones = ((1 << (15 - format.mantissa)) - 1) << format.mantissa;
  if (std::isnan(value)) return 0x7fff;  // what the device writes
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = std::isinf(value) ? format.max_exponent + 1 : std::ilogb(magnitude);
  if (exponent > format.max_exponent) return sign | all_ones;
  if (exponent < format.min_exponent) exponent = format.min_exponent;
  // In units of the last place, which nearbyint rounds to nearest even; a carry past the mantissa is the next exponent.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.mantissa - exponent)));
  const int biased = units + ((exponent - format.min_exponent) << format.mantissa);
  return static_cast<std::uint16_t>(sign | biased);
}

template <class Int>
Int saturate(double value) {
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(value);
  if (rounded >= std::ldexp(1.0, std::numeric_limits<Int>::digits)) return std::numeric_limits<Int>::max();
  if (rounded < -std::ldexp(1.0, std::numeric_limits<Int>::digits)) return std::numeric_limits<Int>::min();
  return static_cast<Int>(rounded);
}

}  // namespace

std::int64_t size_of(DType dtype) { return dtype_rows[static_cast<std::size_t>(dtype)].size; }
std::string_view name_of(DType dtype) { return dtype_rows[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeRow& row : dtype_rows)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

double load_as_double(DType dtype, const void* address) {
  switch (dtype) {
    case DType::f64:
      return load<double>(address);
    case DType::f32:
      return load<float>(address);
    case DType::bf16:
      return decode(bf16_format, load<std::uint16_t>(address));
    case DType::fp16:
      return decode(fp16_format, load<std::uint16_t>(address));
    case DType::i64:
      return static_cast<double>(load<std::int64_t>(address));
    case DType::i32:
      return load<std::int32_t>(address);
    case DType::i8:
      return load<std::int8_t>(address);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void store_from_double(DType dtype, void* address, double value) {
  switch (dtype) {
    case DType::f64:
      return store(address, value);
    case DType::f32:
      return store(address, static_cast<float>(value));
    case DType::bf16:
      return store(address, encode(bf16_format, value));
    case DType::fp16:
      return store(address, encode(fp16_format, value));
    case DType::i64:
      return store(address, saturate<std::int64_t>(value));
    case DType::i32:
      return store(address, saturate<std::int32_t>(value));
    case DType::i8:
      return store(address, saturate<std::int8_t>(value));
  }
}

}  // namespace kdagen::runtime
