// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-shared-exponential=proven=all | FileCheck %s
// RUN: kdagen-opt %s --kda-shared-exponential=proven=down,difference | FileCheck %s --check-prefix=PARTLY
!f = !kda.value<[b, n, t, h, d], f32>
!r = !kda.value<[b, n, t, h], f32>
!c = !kda.value<[b, n, h, d], f32>
!p = !kda.value<[h, d], f32>
!k = !kda.value<[], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
#ln2 = #kda.symbol<"ln2", 0.6931471805599453, 1>
#log2e = #kda.symbol<"ln2", 0.6931471805599453, -1>

// ---- fires: 2^(b-a) beside 2^-a, 2^(a-b) beside 2^a
kda.kernel "family" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 : !f
  %a = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %b = kda.sum %g over ["t"] : (!f) -> !c
  %m = kda.neg %a : (!f) -> !f loc("down"("s.cpp":1:1))
  %down = kda.exp2 %m : (!f) -> !f
  %s = kda.sub %b, %a : (!c, !f) -> !f loc("difference"("s.cpp":2:1))
  %end = kda.exp2 %s : (!f) -> !f
  %r = kda.sub %a, %b : (!f, !c) -> !f
  %back = kda.exp2 %r : (!f) -> !f
  %up = kda.exp2 %a : (!f) -> !f
  kda.output %down as "down" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %end as "end" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %back as "back" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %up as "up" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "family"
// CHECK: %[[A:.*]] = kda.scan
// CHECK: %[[B:.*]] = kda.sum
// CHECK: %[[M:.*]] = kda.neg %[[A]]
// CHECK: %[[DOWN:.*]] = kda.exp2 %[[M]]
// CHECK: %[[COLUMN:.*]] = kda.exp2 %[[B]]
// CHECK: %[[END:.*]] = kda.mul %[[COLUMN]], %[[DOWN]]
// CHECK: %[[MB:.*]] = kda.neg %[[B]]
// CHECK: %[[UP:.*]] = kda.exp2 %[[A]]
// CHECK: %[[COLUMN_DOWN:.*]] = kda.exp2 %[[MB]]
// CHECK: %[[BACK:.*]] = kda.mul %[[COLUMN_DOWN]], %[[UP]]
// CHECK-NOT: kda.exp2
// CHECK: kda.output %[[DOWN]]
// CHECK: kda.output %[[END]]
// CHECK: kda.output %[[BACK]]
// CHECK: kda.output %[[UP]]

// ---- must not fire
// the common factor 2^b is not proven
// PARTLY-LABEL: "family"
// PARTLY: kda.exp2
// PARTLY: %[[S:.*]] = kda.sub
// PARTLY-NEXT: kda.exp2 %[[S]]
// PARTLY-NEXT: %[[R:.*]] = kda.sub
// PARTLY-NEXT: kda.exp2 %[[R]]
// PARTLY-NEXT: kda.exp2
// PARTLY-NEXT: kda.output

// 2^-a is not evaluated: one exponential an element either way
kda.kernel "alone" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 : !f
  %a = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %b = kda.sum %g over ["t"] : (!f) -> !c
  %up = kda.exp2 %a : (!f) -> !f
  %s = kda.sub %b, %a : (!c, !f) -> !f
  %end = kda.exp2 %s : (!f) -> !f
  kda.output %up as "up" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %end as "end" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "alone"
// CHECK: kda.exp2
// CHECK: %[[S:.*]] = kda.sub
// CHECK-NEXT: kda.exp2 %[[S]]
// CHECK-NEXT: kda.output

// b varies with the rows as well: nothing would be saved
kda.kernel "rows" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 : !f
  %b = kda.input "b" role "input" storage f32 : !f
  %a = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %m = kda.neg %a : (!f) -> !f
  %down = kda.exp2 %m : (!f) -> !f
  %s = kda.sub %b, %a : (!f, !f) -> !f
  %end = kda.exp2 %s : (!f) -> !f
  kda.output %down as "down" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %end as "end" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "rows"
// CHECK: kda.exp2
// CHECK-NEXT: %[[S:.*]] = kda.sub
// CHECK-NEXT: kda.exp2 %[[S]]
// CHECK-NEXT: kda.output

// 2^-(another scan)
kda.kernel "other" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 : !f
  %a = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %e = kda.scan %g over "t" exclusive true reverse false : (!f) -> !f
  %b = kda.sum %g over ["t"] : (!f) -> !c
  %m = kda.neg %e : (!f) -> !f
  %down = kda.exp2 %m : (!f) -> !f
  %s = kda.sub %b, %a : (!c, !f) -> !f
  %end = kda.exp2 %s : (!f) -> !f
  kda.output %down as "down" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %end as "end" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "other"
// CHECK: kda.exp2
// CHECK-NEXT: %[[S:.*]] = kda.sub
// CHECK-NEXT: kda.exp2 %[[S]]
// CHECK-NEXT: kda.output
