// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-parameter-hoisting | FileCheck %s
!f = !kda.value<[b, n, t, h, d], f32>
!r = !kda.value<[b, n, t, h], f32>
!c = !kda.value<[b, n, h, d], f32>
!p = !kda.value<[h, d], f32>
!k = !kda.value<[], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
#ln2 = #kda.symbol<"ln2", 0.6931471805599453, 1>
#log2e = #kda.symbol<"ln2", 0.6931471805599453, -1>
#bound = #kda.symbol<"bound", -5.0, 1>

// ---- fires: through every stage of the sum over tiles
kda.kernel "fires" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %a = kda.input "a" role "param" storage f32 : !p
  %x = kda.input "x" role "input" storage f32 : !f
  %dy = kda.input "dy" role "cotangent" storage f32 : !f
  %e = kda.exp %a : (!p) -> !p
  %u = kda.mul %dy, %x : (!f, !f) -> !f
  %v = kda.mul %u, %e : (!f, !p) -> !f
  %s = kda.sum %v over ["t"] : (!f) -> !c
  %da = kda.sum %s over ["b", "n"] : (!c) -> !p
  kda.output %da as "da" role "param_gradient" storage f32 axes ["h", "d"] : !p
}
// CHECK-LABEL: "fires"
// CHECK: %[[E:.*]] = kda.exp
// CHECK-NEXT: %[[U:.*]] = kda.mul
// CHECK-NEXT: %[[S:.*]] = kda.sum %[[U]] over ["t"]
// CHECK-NEXT: %[[T:.*]] = kda.sum %[[S]] over ["b", "n"]
// CHECK-NEXT: %[[DA:.*]] = kda.mul %[[T]], %[[E]]
// CHECK-NEXT: kda.output %[[DA]]

// ---- must not fire
// the product is written out per token: its sum reuses it
kda.kernel "reused" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %a = kda.input "a" role "param" storage f32 : !p
  %dy = kda.input "dy" role "cotangent" storage f32 : !f
  %v = kda.mul %dy, %a : (!f, !p) -> !f
  %s = kda.sum %v over ["t"] : (!f) -> !c
  %da = kda.sum %s over ["b", "n"] : (!c) -> !p
  kda.output %da as "da" role "param_gradient" storage f32 axes ["h", "d"] : !p
  kda.output %v as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "reused"
// CHECK: %[[V:.*]] = kda.mul
// CHECK-NEXT: kda.sum %[[V]]

// the sum goes over an axis of the parameter
kda.kernel "own_axis" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %a = kda.input "a" role "param" storage f32 : !p
  %dy = kda.input "dy" role "cotangent" storage f32 : !f
  %v = kda.mul %dy, %a : (!f, !p) -> !f
  %s = kda.sum %v over ["d"] : (!f) -> !r
  kda.output %s as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h"] : !r
}
// CHECK-LABEL: "own_axis"
// CHECK: %[[V:.*]] = kda.mul
// CHECK-NEXT: kda.sum %[[V]]

// a value a chunk is no parameter
kda.kernel "no_parameter" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %a = kda.input "a" role "input" storage f32 : !c
  %dy = kda.input "dy" role "cotangent" storage f32 : !f
  %v = kda.mul %dy, %a : (!f, !c) -> !f
  %s = kda.sum %v over ["t"] : (!f) -> !c
  kda.output %s as "da" role "gradient" storage f32 axes ["b", "n", "h", "d"] : !c
}
// CHECK-LABEL: "no_parameter"
// CHECK: %[[V:.*]] = kda.mul
// CHECK-NEXT: kda.sum %[[V]]

// the forward keeps its order
kda.kernel "forward" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %a = kda.input "a" role "param" storage f32 : !p
  %x = kda.input "x" role "input" storage f32 : !f
  %v = kda.mul %x, %a : (!f, !p) -> !f
  %s = kda.sum %v over ["t"] : (!f) -> !c
  kda.output %s as "y" role "output" storage f32 axes ["b", "n", "h", "d"] : !c
}
// CHECK-LABEL: "forward"
// CHECK: %[[V:.*]] = kda.mul
// CHECK-NEXT: kda.sum %[[V]]
