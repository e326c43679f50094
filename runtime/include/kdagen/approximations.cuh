// SPDX-License-Identifier: Apache-2.0
// The hardware's approximations, included by <kdagen/device.cuh>. Relative errors of at most about 2^-22; the emulator
// computes them with the host's library, so its results differ in the last bits.
//
// approx_x keeps subnormal numbers, for which the compiler adds scaling around the instruction. approx_x_normal is the
// bare instruction: the same bits where argument and result are normal, which is for the caller to know.
#pragma once

namespace kdagen_device {

KD_FUNCTION float approx_exp2(float x) {
#ifndef KDAGEN_EMULATOR
  asm("ex2.approx.f32 %0, %1;" : "=f"(x) : "f"(x));
  return x;
#else
  return exp2f(x);
#endif
}

KD_FUNCTION float approx_exp2_normal(float x) {
#ifndef KDAGEN_EMULATOR
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(x));
  return x;
#else
  return exp2f(x);
#endif
}

KD_FUNCTION float approx_log2(float x) {
#ifndef KDAGEN_EMULATOR
  asm("lg2.approx.f32 %0, %1;" : "=f"(x) : "f"(x));
  return x;
#else
  return log2f(x);
#endif
}

/// 1 / x
KD_FUNCTION float approx_rcp(float x) {
#ifndef KDAGEN_EMULATOR
  asm("rcp.approx.f32 %0, %1;" : "=f"(x) : "f"(x));
  return x;
#else
  return 1.0f / x;
#endif
}

KD_FUNCTION float approx_rcp_normal(float x) {
#ifndef KDAGEN_EMULATOR
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(x));
  return x;
#else
  return 1.0f / x;
#endif
}

/// 1 / sqrt(x)
KD_FUNCTION float approx_rsqrt(float x) {
#ifndef KDAGEN_EMULATOR
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(x) : "f"(x));
  return x;
#else
  return 1.0f / sqrtf(x);
#endif
}

KD_FUNCTION float approx_rsqrt_normal(float x) {
#ifndef KDAGEN_EMULATOR
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(x));
  return x;
#else
  return 1.0f / sqrtf(x);
#endif
}

}  // namespace kdagen_device
