// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-complement-scan | FileCheck %s
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
// total - suffix sum is the exclusive prefix sum
kda.kernel "total_minus_suffix" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %u = kda.input "u" role "cotangent" storage f32 : !f
  %total = kda.sum %u over ["t"] : (!f) -> !c
  %suffix = kda.scan %u over "t" exclusive false reverse true : (!f) -> !f
  %dx = kda.sub %total, %suffix : (!c, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "total_minus_suffix"
// CHECK: %[[U:.*]] = kda.input "u"
// CHECK-NEXT: %[[DX:.*]] = kda.scan %[[U]] over "t" exclusive true reverse false
// CHECK-NEXT: kda.output %[[DX]]

// the suffix sum of x - u and the total of u: the suffix sum of x, the exclusive prefix sum of u
kda.kernel "part_of_the_scan" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "cotangent" storage f32 : !f
  %dt = kda.input "dt" role "cotangent" storage f32 : !c
  %k = kda.input "k" role "input" storage f32 : !f
  %dk = kda.input "dk" role "cotangent" storage f32 : !f
  %u = kda.mul %dk, %k : (!f, !f) -> !f
  %rest = kda.sub %x, %u : (!f, !f) -> !f
  %suffix = kda.scan %rest over "t" exclusive false reverse true : (!f) -> !f
  %total = kda.sum %u over ["t"] : (!f) -> !c
  %column = kda.add %total, %dt : (!c, !c) -> !c
  %all = kda.broadcast %column : (!c) -> !f
  %dx = kda.add %suffix, %all : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "part_of_the_scan"
// CHECK-DAG: %[[X:.*]] = kda.input "x"
// CHECK-DAG: %[[DT:.*]] = kda.input "dt"
// CHECK: %[[U:.*]] = kda.mul
// CHECK-NOT: kda.sum
// CHECK-DAG: %[[SUFFIX:.*]] = kda.scan %[[X]] over "t" exclusive false reverse true
// CHECK-DAG: %[[PREFIX:.*]] = kda.scan %[[U]] over "t" exclusive true reverse false
// CHECK: %[[S:.*]] = kda.add %[[SUFFIX]], %[[PREFIX]]
// CHECK-NEXT: kda.add %[[S]], %[[DT]]

// the suffix sum of a last row's value is that value; two suffix sums become one
kda.kernel "suffix_sums" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "cotangent" storage f32 : !f
  %y = kda.input "y" role "cotangent" storage f32 : !f
  %last = kda.input "last" role "cotangent" storage f32 : !c
  %at = kda.at_last %last over "t" : (!c) -> !f
  %a = kda.add %x, %at : (!f, !f) -> !f
  %s = kda.scan %a over "t" exclusive false reverse true : (!f) -> !f
  %v = kda.scan %y over "t" exclusive false reverse true : (!f) -> !f
  %dx = kda.add %s, %v : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "suffix_sums"
// CHECK-DAG: %[[X:.*]] = kda.input "x"
// CHECK-DAG: %[[Y:.*]] = kda.input "y"
// CHECK-DAG: %[[LAST:.*]] = kda.input "last"
// CHECK: %[[BOTH:.*]] = kda.add %[[X]], %[[Y]]
// CHECK-NEXT: %[[SCAN:.*]] = kda.scan %[[BOTH]] over "t" exclusive false reverse true
// CHECK-NEXT: kda.add %[[SCAN]], %[[LAST]]

// ---- must not fire
// the total plus the suffix sum
kda.kernel "plus" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %u = kda.input "u" role "cotangent" storage f32 : !f
  %total = kda.sum %u over ["t"] : (!f) -> !c
  %suffix = kda.scan %u over "t" exclusive false reverse true : (!f) -> !f
  %dx = kda.add %total, %suffix : (!c, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "plus"
// CHECK: kda.sum
// CHECK-NEXT: kda.scan
// CHECK-NEXT: kda.add

// another size
kda.kernel "twice" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %u = kda.input "u" role "cotangent" storage f32 : !f
  %two = kda.constant 2.0 [] : !k
  %total = kda.sum %u over ["t"] : (!f) -> !c
  %w = kda.mul %u, %two : (!f, !k) -> !f
  %suffix = kda.scan %w over "t" exclusive false reverse true : (!f) -> !f
  %dx = kda.sub %total, %suffix : (!c, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "twice"
// CHECK: kda.sum
// CHECK: kda.scan {{.*}} reverse true
// CHECK-NEXT: kda.sub

// of two different values
kda.kernel "different" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %u = kda.input "u" role "cotangent" storage f32 : !f
  %w = kda.input "w" role "cotangent" storage f32 : !f
  %total = kda.sum %u over ["t"] : (!f) -> !c
  %suffix = kda.scan %w over "t" exclusive false reverse true : (!f) -> !f
  %dx = kda.sub %total, %suffix : (!c, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "different"
// CHECK: kda.sum
// CHECK-NEXT: kda.scan
// CHECK-NEXT: kda.sub

// the total of a row goes over features
kda.kernel "features" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %u = kda.input "u" role "cotangent" storage f32 : !f
  %total = kda.sum %u over ["d"] : (!f) -> !r
  %suffix = kda.scan %u over "t" exclusive false reverse true : (!f) -> !f
  %dx = kda.sub %total, %suffix : (!r, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "features"
// CHECK: kda.sum
// CHECK-NEXT: kda.scan
// CHECK-NEXT: kda.sub

// the forward's own total - sum stays as the spec has it
kda.kernel "forward" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %u = kda.input "u" role "input" storage f32 : !f
  %total = kda.sum %u over ["t"] : (!f) -> !c
  %sum = kda.scan %u over "t" exclusive false reverse false : (!f) -> !f
  %dx = kda.sub %total, %sum : (!c, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "forward"
// CHECK: kda.sum
// CHECK-NEXT: kda.scan
// CHECK-NEXT: kda.sub

// the prefix sum of a last row's value, and scans in opposite directions, stay
kda.kernel "directions" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "cotangent" storage f32 : !f
  %y = kda.input "y" role "cotangent" storage f32 : !f
  %last = kda.input "last" role "cotangent" storage f32 : !c
  %at = kda.at_last %last over "t" : (!c) -> !f
  %a = kda.add %x, %at : (!f, !f) -> !f
  %s = kda.scan %a over "t" exclusive false reverse false : (!f) -> !f
  %v = kda.scan %y over "t" exclusive false reverse true : (!f) -> !f
  %dx = kda.add %s, %v : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "directions"
// CHECK: kda.at_last
// CHECK-NEXT: %[[A:.*]] = kda.add
// CHECK-NEXT: %[[S:.*]] = kda.scan %[[A]]
// CHECK-NEXT: %[[V:.*]] = kda.scan
// CHECK-NEXT: kda.add %[[S]], %[[V]]
