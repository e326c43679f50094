// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --split-input-file --kda-place-anchors --verify-diagnostics | FileCheck %s
!f = !kda.value<[b, n, t, h, d], f32>
!r = !kda.value<[b, n, t, h], f32>
!k = !kda.value<[], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 64>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]

// ---- fires: one tensor of integers for an exponent and its negative; n = rint(16*7.25/2)
kda.kernel "decay" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage f32 : !f
  %g = kda.input "g" role "input" storage f32 {lower = -7.25 : f64, upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %up = kda.exp2 %s : (!f) -> !f
  %y = kda.mul %x, %up : (!f, !f) -> !f
  %m = kda.neg %s : (!f) -> !f
  %down = kda.exp2 %m : (!f) -> !f
  %z = kda.mul %x, %down : (!f, !f) -> !f
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] {anchor_kind = "subchunk"} : !f
  kda.output %z as "z" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] {anchor_kind = "subchunk"} : !f
}
// CHECK-LABEL: "decay"
// CHECK: %[[X:.*]] = kda.input "x"
// CHECK: %[[S:.*]] = kda.scan
// CHECK: %[[B:.*]] = kda.boundary %[[S]] over "t" every 16
// CHECK: %[[R:.*]] = kda.rint %[[B]]
// CHECK: %[[N:.*]] = kda.constant 5.800000e+01
// CHECK: %[[A:.*]] = kda.sub %[[N]], %[[R]]
// CHECK: kda.output %[[A]] as "y_anchor" role "output" storage i32 axes ["b", "n", "t", "h", "d"] {every = 16 : i64}
// CHECK: %[[D:.*]] = kda.detach %[[A]]
// CHECK: %[[E:.*]] = kda.add %[[S]], %[[D]]
// CHECK: %[[UP:.*]] = kda.exp2 %[[E]]
// CHECK: %[[Y:.*]] = kda.mul %[[X]], %[[UP]]
// CHECK: kda.output %[[Y]] as "y" {{.*}} {anchor_tensor = "y_anchor"}
// CHECK: %[[D2:.*]] = kda.detach %[[A]]
// CHECK: %[[E2:.*]] = kda.add %[[S]], %[[D2]]
// CHECK: %[[M:.*]] = kda.neg %[[E2]]
// CHECK: %[[DOWN:.*]] = kda.exp2 %[[M]]
// CHECK: %[[Z:.*]] = kda.mul %[[X]], %[[DOWN]]
// CHECK: kda.output %[[Z]] as "z" {{.*}} {anchor_sign = -1 : i64, anchor_tensor = "y_anchor"}

// an anchor for each exponent; a gate of a head has anchors without features
kda.kernel "two" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage f32 : !f
  %g = kda.input "g" role "input" storage f32 {lower = -1.0 : f64, upper = 0.0 : f64} : !r
  %s = kda.scan %g over "t" exclusive false reverse false : (!r) -> !r
  %half = kda.constant 0.5 [] : !k
  %t = kda.mul %s, %half : (!r, !k) -> !r
  %es = kda.exp2 %s : (!r) -> !r
  %et = kda.exp2 %t : (!r) -> !r
  %y = kda.mul %x, %es : (!f, !r) -> !f
  %z = kda.mul %x, %et : (!f, !r) -> !f
  kda.output %y as "y" role "output" storage f32 axes ["b", "n", "t", "h", "d"] {anchor_kind = "subchunk"} : !f
  kda.output %z as "z" role "output" storage f32 axes ["b", "n", "t", "h", "d"] {anchor_kind = "subchunk"} : !f
}
// CHECK-LABEL: "two"
// CHECK: kda.constant 8.0
// CHECK: as "y_anchor" role "output" storage i32 axes ["b", "n", "t", "h"] {every = 16 : i64}
// CHECK: as "y" {{.*}} {anchor_tensor = "y_anchor"}
// CHECK: kda.constant 4.0
// CHECK: as "z_anchor" role "output" storage i32 axes ["b", "n", "t", "h"] {every = 16 : i64}
// CHECK: as "z" {{.*}} {anchor_tensor = "z_anchor"}

// a sum that grows: n is negative
kda.kernel "growth" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = 0.0 : f64, upper = 2.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive true reverse false : (!f) -> !f
  %e = kda.exp2 %s : (!f) -> !f
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] {anchor_kind = "subchunk"} : !f
}
// CHECK-LABEL: "growth"
// CHECK: kda.constant -1.600000e+01

// ---- must not fire: refused
// -----
!f = !kda.value<[b, n, t, h, d], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 64>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
// expected-error @below {{output 'y' cannot be anchored: the exponent cumsum_t(g) has no bounds inside a sub-chunk of 16 rows; bound the gate, or store the exponent itself}}
module {
kda.kernel "unbounded" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %e = kda.exp2 %s : (!f) -> !f
  kda.output %e as "y" role "output" storage f32 axes ["b", "n", "t", "h", "d"] {anchor_kind = "subchunk"} : !f
}
}
// -----
!f = !kda.value<[b, n, t, h, d], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
// expected-error @below {{output 'y' cannot be anchored: a chunk of 16 rows is one sub-chunk of 16; pass anchor static, which needs no tensor, or a longer chunk}}
module {
kda.kernel "short" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -1.0 : f64, upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %e = kda.exp2 %s : (!f) -> !f
  kda.output %e as "y" role "output" storage f32 axes ["b", "n", "t", "h", "d"] {anchor_kind = "subchunk"} : !f
}
}
// -----
!f = !kda.value<[b, n, t, h, d], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 64>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
// expected-error @below {{output 'y' cannot be anchored: its anchors are the output 'y_anchor', which is the name of another value; rename that one}}
module {
kda.kernel "named" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "y_anchor" role "input" storage f32 {lower = -1.0 : f64, upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %e = kda.exp2 %s : (!f) -> !f
  kda.output %e as "y" role "output" storage f32 axes ["b", "n", "t", "h", "d"] {anchor_kind = "subchunk"} : !f
}
}
// -----
!f = !kda.value<[b, n, t, h, d], f32>
!c = !kda.value<[b, n, h, d], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 64>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
kda.kernel "ill" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 : !f
  %c = kda.sum %g over ["t"] : (!f) -> !c
  // expected-error @below {{needs an operand with rows}}
  %b = kda.boundary %c over "t" every 16 : (!c) -> !c
}
// -----
!f = !kda.value<[b, n, t, h, d], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 64>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
kda.kernel "ill" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 : !f
  // expected-error @below {{needs sub-chunks of at least one row}}
  %b = kda.boundary %g over "t" every 0 : (!f) -> !f
}
// -----
!c = !kda.value<[b, n, h, d], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 64>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
kda.kernel "ill" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 : !c
  // expected-error @below {{writes a row of each sub-chunk, but its tensor has no rows}}
  kda.output %g as "y" role "output" storage i32 axes ["b", "n", "h", "d"] {every = 16 : i64} : !c
}
