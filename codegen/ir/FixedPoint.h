// SPDX-License-Identifier: Apache-2.0
// Which kda.to_fixed ops are formed from the small side of a sigmoid.
//
//   sigmoid(z)*c = c - c*sigmoid(-|z|) for z >= 0, c*sigmoid(-|z|) for z < 0
// As a float, sigmoid near 1 is known to 2^-24 and c*sigmoid to |c|*2^-24, eight units of 2^-24 for a gate of 7. The
// small side has the error of a small number, and the difference is one of integers. c itself is no whole number of
// units: with c = whole + rest, the difference is whole - (c*sigmoid(-|z|) - rest), which rounds once. A rounded c
// would shift every gate near its bound by the same part of a unit, and sums over tokens would add that up.
#pragma once
#include <cmath>
#include <optional>

#include "codegen/ir/Dialect.h"
#include "codegen/ir/Scalar.h"

namespace kdagen::kda {

/// UnitAttr on a kda.to_fixed of sigmoid(z)*c, c a constant.
constexpr const char* small_side_attribute = "kda.small_side";

/// UnitAttr on a scheduled kda.to_fixed whose x is far inside its limit.
constexpr const char* never_saturates_attribute = "kda.never_saturates";

struct ScaledSigmoid {
  mlir::Value z, factor;
  Scalar scalar;  ///< of factor
};

/// What the nearest whole number of units 2^-fraction_bits leaves of c.
inline double rest_of_constant(double c, int fraction_bits) {
  return c - std::ldexp(std::nearbyint(std::ldexp(c, fraction_bits)), -fraction_bits);
}

/// x as sigmoid(z)*c.
inline std::optional<ScaledSigmoid> scaled_sigmoid(mlir::Value x) {
  auto product = x.getDefiningOp<MulOp>();
  if (!product) return std::nullopt;
  for (auto [a, b] : {std::pair(product.getA(), product.getB()), std::pair(product.getB(), product.getA())}) {
    auto sigmoid = a.getDefiningOp<SigmoidOp>();
    auto scalar = constant_scalar(b);
    if (sigmoid && scalar && type_of(a).getAxes() == type_of(x).getAxes())
      return ScaledSigmoid{sigmoid.getX(), b, *scalar};
  }
  return std::nullopt;
}

/// The same of what the op converts, if it is to be formed from the small side.
inline std::optional<ScaledSigmoid> small_side(ToFixedOp op) {
  return op->hasAttr(small_side_attribute) ? scaled_sigmoid(op.getX()) : std::nullopt;
}

}  // namespace kdagen::kda
