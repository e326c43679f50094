// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-fixed-point-scan | FileCheck %s
!f = !kda.value<[b, n, t, h, d], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]

// a backward does what its forward does, exponents or not
kda.kernel "pair" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -7.25 : f64, upper = 0.0 : f64} : !f
  %u = kda.input "u" role "input" storage f32 {lower = -7.25 : f64, upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %us = kda.scan %u over "t" exclusive false reverse false : (!f) -> !f
  %e = kda.exp2 %s : (!f) -> !f
  %p = kda.mul %us, %s : (!f, !f) -> !f
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %p as "p" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
kda.kernel "pair" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %u = kda.input "u" role "input" storage f32 {lower = -7.25 : f64, upper = 0.0 : f64} : !f
  %g = kda.input "g" role "input" storage f32 {lower = -7.25 : f64, upper = 0.0 : f64} : !f
  %dp = kda.input "dp" role "cotangent" storage f32 {lower = -1.0 : f64, upper = 1.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %us = kda.scan %u over "t" exclusive false reverse false : (!f) -> !f
  %eu = kda.exp2 %us : (!f) -> !f
  %p = kda.mul %dp, %s : (!f, !f) -> !f
  %q = kda.mul %p, %eu : (!f, !f) -> !f
  %back = kda.scan %dp over "t" exclusive false reverse true : (!f) -> !f
  %w = kda.exp2 %back : (!f) -> !f
  kda.output %q as "du" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %w as "dg" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "pair" "fwd"
// CHECK: kda.scan {{.*}} !kda.fixed<24>>
// CHECK: kda.scan {{.*}} -> !kda.value<[b, n, t, h, d], f32>
// CHECK-LABEL: "pair" "bwd"
// CHECK: kda.scan {{.*}} !kda.fixed<24>>
// CHECK: kda.scan {{.*}} -> !kda.value<[b, n, t, h, d], f32>
// ---- must not fire: sums of cotangents
// CHECK: kda.scan {{.*}} reverse true : {{.*}} -> !kda.value<[b, n, t, h, d], f32>
