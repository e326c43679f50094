// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-deferred-constant | FileCheck %s
!f = !kda.value<[b, n, t, h, d], f32>
!r = !kda.value<[b, n, t, h], f32>
!c = !kda.value<[b, n, h, d], f32>
!p = !kda.value<[h, d], f32>
!k = !kda.value<[], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
#ln2 = #kda.symbol<"ln2", 0.6931471805599453, 1>
#log2e = #kda.symbol<"ln2", 0.6931471805599453, -1>
#bound = #kda.symbol<"bound", -5.0, 1>

// ---- fires
// ln2 of every summand passes sums and scans and cancels against the gate's log2e: one constant is left
kda.kernel "cancels" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage f32 : !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  %dt = kda.input "dt" role "cotangent" storage f32 : !c
  %ln2 = kda.constant 1.0 [#ln2] : !k
  %gate = kda.constant 1.0 [#bound, #log2e] : !k
  %a = kda.mul %da, %ln2 : (!f, !k) -> !f
  %b = kda.mul %db, %ln2 : (!f, !k) -> !f
  %s = kda.sub %a, %b : (!f, !f) -> !f
  %scan = kda.scan %s over "t" exclusive false reverse true : (!f) -> !f
  %t = kda.mul %dt, %ln2 : (!c, !k) -> !c
  %g = kda.add %scan, %t : (!f, !c) -> !f
  %g1 = kda.mul %g, %gate : (!f, !k) -> !f
  %dx = kda.mul %g1, %x : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "cancels"
// CHECK-NOT: "ln2"
// CHECK-DAG: %[[DA:.*]] = kda.input "da"
// CHECK-DAG: %[[DB:.*]] = kda.input "db"
// CHECK-DAG: %[[DT:.*]] = kda.input "dt"
// CHECK: %[[S:.*]] = kda.sub %[[DA]], %[[DB]]
// CHECK: %[[SCAN:.*]] = kda.scan %[[S]]
// CHECK: %[[G:.*]] = kda.add %[[SCAN]], %[[DT]]
// CHECK: %[[P:.*]] = kda.mul %[[G]], %
// CHECK: kda.constant 1.000000e+00 [#kda.symbol<"bound", {{.*}}, 1>]
// CHECK: kda.mul %[[P]], %
// CHECK-NEXT: kda.output

// a column that lacks the ln2 gets its inverse: one multiplication a column, none an element
kda.kernel "column" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %dt = kda.input "dt" role "cotangent" storage f32 : !c
  %ln2 = kda.constant 1.0 [#ln2] : !k
  %gate = kda.constant 1.0 [#bound, #log2e] : !k
  %scan = kda.scan %da over "t" exclusive false reverse true : (!f) -> !f
  %s = kda.mul %scan, %ln2 : (!f, !k) -> !f
  %g = kda.add %s, %dt : (!f, !c) -> !f
  %dx = kda.mul %g, %gate : (!f, !k) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "column"
// CHECK: %[[SCAN:.*]] = kda.scan
// CHECK: kda.constant 1.000000e+00 [#kda.symbol<"ln2", {{.*}}, -1>]
// CHECK-NEXT: %[[T:.*]] = kda.mul %{{.*}} : (!kda.value<[b, n, h, d], f32>, !kda.value<[], f32>)
// CHECK-NEXT: %[[G:.*]] = kda.add %[[SCAN]], %[[T]]
// CHECK-NEXT: kda.constant 1.000000e+00 [#kda.symbol<"bound", {{.*}}, 1>]
// CHECK-NEXT: kda.mul %[[G]], %
// CHECK-NEXT: kda.output

// signs meet, and a constant inside a product of parameters cancels
kda.kernel "parameters" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %w = kda.input "w" role "param" storage f32 : !p
  %x = kda.input "x" role "input" storage f32 : !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %ln2 = kda.constant 1.0 [#ln2] : !k
  %log2e = kda.constant 1.0 [#log2e] : !k
  %w0 = kda.exp %w : (!p) -> !p
  %w1 = kda.neg %w0 : (!p) -> !p
  %w2 = kda.mul %w1, %log2e : (!p, !k) -> !p
  %n = kda.neg %da : (!f) -> !f
  %a = kda.mul %n, %ln2 : (!f, !k) -> !f
  %b = kda.mul %a, %w2 : (!f, !p) -> !f
  %dx = kda.mul %b, %x : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "parameters"
// CHECK-NOT: "ln2"
// CHECK: %[[DA:.*]] = kda.input "da"
// CHECK-NEXT: %[[W:.*]] = kda.exp
// CHECK-NEXT: %[[A:.*]] = kda.mul %[[DA]], %[[W]]
// CHECK-NEXT: %[[DX:.*]] = kda.mul %[[A]], %
// CHECK-NEXT: kda.output %[[DX]]

// ---- must not fire
// a scaled value that stands in two places is multiplied once
kda.kernel "two_uses" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage f32 : !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %scale = kda.constant 1.0 [#bound] : !k
  %a = kda.mul %da, %scale : (!f, !k) -> !f
  %dx = kda.mul %a, %x : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %a as "da" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "two_uses"
// CHECK: %[[A:.*]] = kda.mul %{{.*}} : (!kda.value<[b, n, t, h, d], f32>, !kda.value<[], f32>)
// CHECK-NEXT: %[[DX:.*]] = kda.mul %[[A]], %
// CHECK-NEXT: kda.output %[[DX]]
// CHECK-NEXT: kda.output %[[A]]

// the forward keeps its roundings
kda.kernel "forward" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage f32 : !f
  %ln2 = kda.constant 1.0 [#ln2] : !k
  %log2e = kda.constant 1.0 [#log2e] : !k
  %a = kda.mul %x, %ln2 : (!f, !k) -> !f
  %b = kda.mul %a, %log2e : (!f, !k) -> !f
  kda.output %b as "b" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "forward"
// CHECK: %[[A:.*]] = kda.mul
// CHECK: kda.mul %[[A]]

// a constant of a row scalar does not move to the elements
kda.kernel "row_scalar" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage f32 : !f
  %da = kda.input "da" role "cotangent" storage f32 : !r
  %scale = kda.constant 1.0 [#bound] : !k
  %a = kda.mul %da, %scale : (!r, !k) -> !r
  %dx = kda.mul %a, %x : (!r, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "row_scalar"
// CHECK: %[[A:.*]] = kda.mul %{{.*}} : (!kda.value<[b, n, t, h], f32>, !kda.value<[], f32>)
// CHECK-NEXT: kda.mul %[[A]]

// nothing later cancels: the column keeps lacking the factor
kda.kernel "nothing_cancels" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %dt = kda.input "dt" role "cotangent" storage f32 : !c
  %ln2 = kda.constant 1.0 [#ln2] : !k
  %gate = kda.constant 1.0 [#bound] : !k
  %s = kda.mul %da, %ln2 : (!f, !k) -> !f
  %g = kda.add %s, %dt : (!f, !c) -> !f
  %dx = kda.mul %g, %gate : (!f, !k) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "nothing_cancels"
// CHECK: %[[S:.*]] = kda.mul
// CHECK-NEXT: %[[G:.*]] = kda.add %[[S]]
// CHECK-NEXT: kda.mul %[[G]]

// numbers of different size: 2x + 3y is not rewritten with 2*(x + 1.5y)
kda.kernel "numbers" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  %two = kda.constant 2.0 [] : !k
  %three = kda.constant 3.0 [] : !k
  %a = kda.mul %da, %two : (!f, !k) -> !f
  %b = kda.mul %db, %three : (!f, !k) -> !f
  %dx = kda.add %a, %b : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "numbers"
// CHECK: %[[A:.*]] = kda.mul
// CHECK-NEXT: %[[B:.*]] = kda.mul
// CHECK-NEXT: kda.add %[[A]], %[[B]]

// shifts that fill with another number than 0, and tanh, are not linear
kda.kernel "not_linear" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %scale = kda.constant 1.0 [#bound] : !k
  %a = kda.mul %da, %scale : (!f, !k) -> !f
  %b = kda.shift %a over "t" amount 1 fill 1.0 : (!f) -> !f
  %c = kda.mul %da, %scale : (!f, !k) -> !f
  kda.output %b as "b" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "not_linear"
// CHECK: %[[A:.*]] = kda.mul
// CHECK-NEXT: kda.shift %[[A]]
