// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-difference-of-sums=saved=saved_sum | FileCheck %s
!f = !kda.value<[b, n, t, h, d], f32>
!c = !kda.value<[b, n, h, d], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]

// ---- fires: gates without a bound, the four scans, and the last row of a scan as the total
kda.kernel "gates" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {upper = 0.0 : f64} : !f
  %t = kda.sum %g over ["t"] : (!f) -> !c
  %up = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %before = kda.scan %g over "t" exclusive true reverse false : (!f) -> !f
  %from = kda.scan %g over "t" exclusive false reverse true : (!f) -> !f
  %a = kda.sub %t, %up : (!c, !f) -> !f loc("a"("s.cpp":1:1))
  %b = kda.sub %t, %before : (!c, !f) -> !f loc("b"("s.cpp":2:1))
  %e = kda.sub %t, %from : (!c, !f) -> !f loc("e"("s.cpp":3:1))
  %i = kda.sub %up, %t : (!f, !c) -> !f loc("i"("s.cpp":4:1))
  %last = kda.last %up over "t" : (!f) -> !c
  %m = kda.sub %last, %before : (!c, !f) -> !f
  kda.output %a as "a" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %b as "b" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %i as "i" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %m as "m" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %t as "t" role "output" storage f32 axes ["b", "n", "h", "d"] : !c
}
// CHECK-LABEL: "gates"
// CHECK: %[[G:.*]] = kda.input
// CHECK: %[[T:.*]] = kda.sum %[[G]]
// CHECK-DAG: %[[A:.*]] = kda.scan %[[G]] over "t" exclusive true reverse true
// CHECK-DAG: %[[B:.*]] = kda.scan %[[G]] over "t" exclusive false reverse true
// CHECK-DAG: %[[E:.*]] = kda.scan %[[G]] over "t" exclusive true reverse false
// CHECK-DAG: %[[I:.*]] = kda.neg %[[A]]
// CHECK-NOT: kda.sub
// CHECK: kda.output %[[A]] as "a"
// CHECK: kda.output %[[B]] as "b"
// CHECK: kda.output %[[E]] as "e"
// CHECK: kda.output %[[I]] as "i"
// CHECK: kda.output %[[B]] as "m"
// CHECK: kda.output %[[T]] as "t"

// ---- must not fire
// a gate with a bound
kda.kernel "bounded" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -7.25 : f64, upper = 0.0 : f64} : !f
  %t = kda.sum %g over ["t"] : (!f) -> !c
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %a = kda.sub %t, %s : (!c, !f) -> !f
  kda.output %a as "a" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "bounded"
// CHECK: kda.sub

// sums of different values, two scans, a sum over features
kda.kernel "others" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 : !f
  %k = kda.input "k" role "input" storage f32 : !f
  %t = kda.sum %k over ["t"] : (!f) -> !c
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %r = kda.scan %g over "t" exclusive true reverse true : (!f) -> !f
  %a = kda.sub %t, %s : (!c, !f) -> !f
  %b = kda.sub %r, %s : (!f, !f) -> !f
  kda.output %a as "a" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %b as "b" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "others"
// CHECK-COUNT-2: kda.sub

// a saved sum: the backward reads it, and cannot form the other
kda.kernel "saved" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 : !f
  %t = kda.sum %g over ["t"] : (!f) -> !c
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f loc("saved_sum"("s.cpp":1:1))
  %a = kda.sub %t, %s : (!c, !f) -> !f
  kda.output %a as "a" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "saved"
// CHECK: kda.sub

// sums of gradients are complement-scan's
kda.kernel "gradients" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "dy" role "cotangent" storage f32 : !f
  %t = kda.sum %g over ["t"] : (!f) -> !c
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %a = kda.sub %t, %s : (!c, !f) -> !f
  kda.output %a as "a" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "gradients"
// CHECK: kda.sub
