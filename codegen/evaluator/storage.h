// SPDX-License-Identifier: Apache-2.0
// Rounding of a double to a storage type.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "mlir/IR/Types.h"

namespace kdagen::evaluator {

/// A binary floating-point format with `precision` significand bits (the implicit one included); precision 0: an
/// integer of magnitude at most `max`.
struct Storage {
  int precision = 24;
  int min_exponent = -126;  ///< of the smallest normal number
  double max = std::numeric_limits<float>::max();

  /// Unit roundoff; 0 for doubles and integers.
  double unit() const { return precision == 0 || precision == 53 ? 0.0 : std::ldexp(1.0, -precision); }
  /// Half the smallest subnormal: the largest error of a rounding that underflows.
  double tiny() const { return precision == 0 || precision == 53 ? 0.0 : std::ldexp(1.0, min_exponent - precision); }
};

/// f32, bf16, f16, f64, i8 or i32. Throws KdagenBug on any other type.
Storage storage_of(mlir::Type type);

/// x rounded once to nearest even, subnormals kept, overflow to infinity; NaN stays NaN.
inline double round_to(double x, const Storage& storage) {
  if (storage.precision == 53 || !(std::fabs(x) <= std::numeric_limits<double>::max())) return x;
  if (storage.precision == 0) return std::fmax(-storage.max - 1, std::fmin(storage.max, std::nearbyint(x)));
  double rounded;
  if (std::fabs(x) < std::ldexp(1.0, storage.min_exponent)) {
    double shift =
        std::ldexp(1.5, 52 + storage.min_exponent + 1 - storage.precision);  // its ulp is the subnormals' spacing
    rounded = std::copysign((x + shift) - shift, x);
  } else {
    int dropped = 53 - storage.precision;
    uint64_t bits = std::bit_cast<uint64_t>(x);
    bits += (uint64_t{1} << (dropped - 1)) - 1 + ((bits >> dropped) & 1);
    rounded = std::bit_cast<double>(bits & ~((uint64_t{1} << dropped) - 1));
  }
  return std::fabs(rounded) > storage.max ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}

}  // namespace kdagen::evaluator
