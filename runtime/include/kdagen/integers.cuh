// SPDX-License-Identifier: Apache-2.0
// The prelude of texts that make integers of floats: fixed-point sums and integer outputs.
#pragma once
#include <kdagen/device.cuh>

namespace kdagen_device {

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

template <>
KD_FUNCTION int to<int>(float x) {
  return nearest_integer(x);
}

struct alignas(16) FourIntegers {
  int x, y, z, w;
};

template <>
KD_FUNCTION void store4<true, int>(int* to_where, const float* in) {
  require_alignment(to_where, sizeof(FourIntegers));
  *reinterpret_cast<FourIntegers*>(to_where) =
      FourIntegers{to<int>(in[0]), to<int>(in[1]), to<int>(in[2]), to<int>(in[3])};
}

}  // namespace kdagen_device

using namespace kdagen_device;
