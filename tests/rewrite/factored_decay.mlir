// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-factored-decay | FileCheck %s
!f = !kda.value<[b, n, t, h, d], f32>
!r = !kda.value<[b, n, t, h], f32>
!c = !kda.value<[b, n, h, d], f32>
!p = !kda.value<[h, d], f32>
!k = !kda.value<[], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
#ln2 = #kda.symbol<"ln2", 0.6931471805599453, 1>
#log2e = #kda.symbol<"ln2", 0.6931471805599453, -1>

// ---- fires
// outputs x*2^G, x*2^-G: p and n once, dx = p + n, dG = ln2 * x*(p - n)
kda.kernel "signed" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %g = kda.input "g" role "input" storage f32 : !f
  %m = kda.neg %g : (!f) -> !f
  %up = kda.exp2 %g : (!f) -> !f
  %down = kda.exp2 %m : (!f) -> !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  %ln2 = kda.constant 1.0 [#ln2] : !k
  %a0 = kda.mul %da, %up : (!f, !f) -> !f
  %a1 = kda.mul %da, %x : (!f, !f) -> !f
  %a2 = kda.mul %a1, %up : (!f, !f) -> !f
  %a3 = kda.mul %a2, %ln2 : (!f, !k) -> !f
  %b0 = kda.mul %db, %down : (!f, !f) -> !f
  %b1 = kda.mul %db, %x : (!f, !f) -> !f
  %b2 = kda.mul %b1, %down : (!f, !f) -> !f
  %b3 = kda.mul %b2, %ln2 : (!f, !k) -> !f
  %dx = kda.add %a0, %b0 : (!f, !f) -> !f
  %dg = kda.sub %a3, %b3 : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %dg as "dg" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "signed"
// CHECK-DAG: %[[X:.*]] = kda.input "x"
// CHECK-DAG: %[[UP:.*]] = kda.exp2
// CHECK-DAG: %[[DOWN:.*]] = kda.exp2
// CHECK-DAG: %[[DA:.*]] = kda.input "da"
// CHECK-DAG: %[[DB:.*]] = kda.input "db"
// CHECK: %[[P:.*]] = kda.mul %[[DA]], %
// CHECK: %[[N:.*]] = kda.mul %[[DB]], %
// CHECK-DAG: %[[DX:.*]] = kda.add %[[P]], %[[N]]
// CHECK-DAG: %[[DIFFERENCE:.*]] = kda.sub %[[P]], %[[N]]
// CHECK: %[[PRODUCT:.*]] = kda.mul %[[X]], %[[DIFFERENCE]]
// CHECK: %[[DG:.*]] = kda.mul %[[PRODUCT]], %
// CHECK-DAG: kda.output %[[DX]] as "dx"
// CHECK-DAG: kda.output %[[DG]] as "dg"

// x has no gradient: it is factored out of dG all the same
kda.kernel "no_gradient" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage i8 : !f
  %g = kda.input "g" role "input" storage f32 : !f
  %m = kda.neg %g : (!f) -> !f
  %up = kda.exp %g : (!f) -> !f
  %down = kda.exp %m : (!f) -> !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  %a1 = kda.mul %da, %x : (!f, !f) -> !f
  %a2 = kda.mul %a1, %up : (!f, !f) -> !f
  %b1 = kda.mul %db, %x : (!f, !f) -> !f
  %b2 = kda.mul %b1, %down : (!f, !f) -> !f
  %dg = kda.sub %a2, %b2 : (!f, !f) -> !f
  kda.output %dg as "dg" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "no_gradient"
// CHECK: %[[X:.*]] = kda.input "x"
// CHECK: %[[DIFFERENCE:.*]] = kda.sub
// CHECK-NEXT: %[[DG:.*]] = kda.mul %[[X]], %[[DIFFERENCE]]
// CHECK-NEXT: kda.output %[[DG]]

// two exponents over one x: three shares, each computed once
kda.kernel "two_exponents" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %g = kda.input "g" role "input" storage f32 : !f
  %f = kda.input "f" role "input" storage f32 : !f
  %u = kda.exp2 %g : (!f) -> !f
  %v = kda.exp2 %f : (!f) -> !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  %dc = kda.input "dc" role "cotangent" storage f32 : !f
  %ln2 = kda.constant 1.0 [#ln2] : !k
  %xu = kda.mul %x, %u : (!f, !f) -> !f
  %xv = kda.mul %x, %v : (!f, !f) -> !f
  %p = kda.mul %da, %u : (!f, !f) -> !f
  %q = kda.mul %db, %v : (!f, !f) -> !f
  %dx0 = kda.add %p, %q : (!f, !f) -> !f
  %dx = kda.add %dx0, %dc : (!f, !f) -> !f
  %g0 = kda.mul %da, %xu : (!f, !f) -> !f
  %dg = kda.mul %g0, %ln2 : (!f, !k) -> !f
  %f0 = kda.mul %db, %xv : (!f, !f) -> !f
  %df = kda.mul %f0, %ln2 : (!f, !k) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %dg as "dg" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %df as "df" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "two_exponents"
// CHECK: %[[X:.*]] = kda.input "x"
// CHECK: %[[P:.*]] = kda.mul %{{.*}}, %{{.*}} : (!kda.value<[b, n, t, h, d], f32>, !kda.value<[b, n, t, h, d], f32>)
// CHECK: %[[Q:.*]] = kda.mul %{{.*}}, %{{.*}} : (!kda.value<[b, n, t, h, d], f32>, !kda.value<[b, n, t, h, d], f32>)
// CHECK: kda.add %[[P]], %[[Q]]
// CHECK: kda.mul %[[X]], %[[P]]
// CHECK: kda.mul %[[X]], %[[Q]]

// exponents without features: one row sum
kda.kernel "row_sums" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %g = kda.input "g" role "input" storage f32 : !r
  %m = kda.neg %g : (!r) -> !r
  %up = kda.exp2 %g : (!r) -> !r
  %down = kda.exp2 %m : (!r) -> !r
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  %a0 = kda.mul %da, %up : (!f, !r) -> !f
  %a1 = kda.mul %da, %x : (!f, !f) -> !f
  %a2 = kda.sum %a1 over ["d"] : (!f) -> !r
  %a3 = kda.mul %a2, %up : (!r, !r) -> !r
  %b0 = kda.mul %db, %down : (!f, !r) -> !f
  %b1 = kda.mul %db, %x : (!f, !f) -> !f
  %b2 = kda.sum %b1 over ["d"] : (!f) -> !r
  %b3 = kda.mul %b2, %down : (!r, !r) -> !r
  %dx = kda.add %a0, %b0 : (!f, !f) -> !f
  %dg = kda.sub %a3, %b3 : (!r, !r) -> !r
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %dg as "dg" role "gradient" storage f32 axes ["b", "n", "t", "h"] : !r
}
// CHECK-LABEL: "row_sums"
// CHECK: %[[X:.*]] = kda.input "x"
// CHECK: %[[P:.*]] = kda.mul
// CHECK: %[[N:.*]] = kda.mul
// CHECK-DAG: kda.add %[[P]], %[[N]]
// CHECK-DAG: %[[DIFFERENCE:.*]] = kda.sub %[[P]], %[[N]]
// CHECK: %[[PRODUCT:.*]] = kda.mul %[[X]], %[[DIFFERENCE]]
// CHECK-NEXT: %[[DG:.*]] = kda.sum %[[PRODUCT]] over ["d"]
// CHECK-NOT: kda.sum
// CHECK: kda.output %[[DG]] as "dg"

// ---- must not fire
// no two terms share a factor, and none is x times a term of another value
kda.kernel "nothing_shared" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %y = kda.input "y" role "input" storage bf16 : !f
  %g = kda.input "g" role "input" storage f32 : !f
  %u = kda.exp2 %g : (!f) -> !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  %ln2 = kda.constant 1.0 [#ln2] : !k
  %a1 = kda.mul %da, %x : (!f, !f) -> !f
  %a2 = kda.mul %a1, %u : (!f, !f) -> !f
  %b1 = kda.mul %db, %y : (!f, !f) -> !f
  %b2 = kda.mul %b1, %u : (!f, !f) -> !f
  %s = kda.add %a2, %b2 : (!f, !f) -> !f
  %dg = kda.mul %s, %ln2 : (!f, !k) -> !f
  kda.output %dg as "dg" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "nothing_shared"
// CHECK: %[[A1:.*]] = kda.mul %{{.*}}, %0
// CHECK-NEXT: kda.mul %[[A1]]
// CHECK-NEXT: %[[B1:.*]] = kda.mul
// CHECK-NEXT: kda.mul %[[B1]]
// CHECK-NEXT: kda.add

// two terms share a factor, but there is no exponential and no value that holds the rest
kda.kernel "no_exponential" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %g = kda.input "g" role "input" storage f32 : !f
  %u = kda.tanh %g : (!f) -> !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  %a1 = kda.mul %da, %x : (!f, !f) -> !f
  %a2 = kda.mul %a1, %u : (!f, !f) -> !f
  %b1 = kda.mul %db, %x : (!f, !f) -> !f
  %b2 = kda.mul %b1, %g : (!f, !f) -> !f
  %dg = kda.sub %a2, %b2 : (!f, !f) -> !f
  kda.output %dg as "dg" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "no_exponential"
// CHECK: %[[A1:.*]] = kda.mul %{{.*}}, %0
// CHECK-NEXT: %[[A2:.*]] = kda.mul %[[A1]]
// CHECK-NEXT: %[[B1:.*]] = kda.mul %{{.*}}, %0
// CHECK-NEXT: %[[B2:.*]] = kda.mul %[[B1]]
// CHECK-NEXT: kda.sub %[[A2]], %[[B2]]

// the backward of a norm uses a cotangent twice: (dy - y*sum(dy*y))*inv keeps its form
kda.kernel "norm" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %g = kda.input "g" role "input" storage f32 : !f
  %u = kda.exp2 %g : (!f) -> !f
  %inv = kda.input "inv" role "input" storage f32 : !r
  %y = kda.mul %x, %inv : (!f, !r) -> !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %dy = kda.mul %da, %u : (!f, !f) -> !f
  %dyy = kda.mul %dy, %y : (!f, !f) -> !f
  %along = kda.sum %dyy over ["d"] : (!f) -> !r
  %part = kda.mul %y, %along : (!f, !r) -> !f
  %rest = kda.sub %dy, %part : (!f, !f) -> !f
  %dx = kda.mul %rest, %inv : (!f, !r) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "norm"
// CHECK: %[[Y:.*]] = kda.mul
// CHECK: %[[DY:.*]] = kda.mul
// CHECK-NEXT: %[[DYY:.*]] = kda.mul %[[DY]], %[[Y]]
// CHECK-NEXT: %[[ALONG:.*]] = kda.sum %[[DYY]]
// CHECK-NEXT: %[[PART:.*]] = kda.mul %[[Y]], %[[ALONG]]
// CHECK-NEXT: %[[REST:.*]] = kda.sub %[[DY]], %[[PART]]
// CHECK-NEXT: kda.mul %[[REST]]

// row sums of different axes, or without decays in front, are not gathered
kda.kernel "separate_sums" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %g = kda.input "g" role "input" storage f32 : !r
  %up = kda.exp2 %g : (!r) -> !r
  %s = kda.sigmoid %g : (!r) -> !r
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  %a1 = kda.mul %da, %x : (!f, !f) -> !f
  %a2 = kda.sum %a1 over ["d"] : (!f) -> !r
  %a3 = kda.mul %a2, %up : (!r, !r) -> !r
  %b1 = kda.mul %db, %x : (!f, !f) -> !f
  %b2 = kda.sum %b1 over ["d"] : (!f) -> !r
  %b3 = kda.mul %b2, %s : (!r, !r) -> !r
  %dg = kda.sub %a3, %b3 : (!r, !r) -> !r
  kda.output %dg as "dg" role "gradient" storage f32 axes ["b", "n", "t", "h"] : !r
}
// CHECK-LABEL: "separate_sums"
// CHECK: %[[A:.*]] = kda.sum
// CHECK-NEXT: %[[A3:.*]] = kda.mul %[[A]]
// CHECK: %[[B:.*]] = kda.sum
// CHECK-NEXT: %[[B3:.*]] = kda.mul %[[B]]
// CHECK-NEXT: kda.sub %[[A3]], %[[B3]]

// an exponential of a parameter is no decay
kda.kernel "parameter" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %w = kda.input "w" role "param" storage f32 : !p
  %a = kda.exp %w : (!p) -> !p
  %s = kda.sigmoid %x : (!f) -> !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  %a0 = kda.mul %da, %a : (!f, !p) -> !f
  %a1 = kda.mul %a0, %s : (!f, !f) -> !f
  %b0 = kda.mul %db, %a : (!f, !p) -> !f
  %b1 = kda.mul %b0, %s : (!f, !f) -> !f
  %dx = kda.add %a1, %b1 : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "parameter"
// CHECK: %[[A0:.*]] = kda.mul
// CHECK-NEXT: %[[A1:.*]] = kda.mul %[[A0]]
// CHECK-NEXT: %[[B0:.*]] = kda.mul
// CHECK-NEXT: %[[B1:.*]] = kda.mul %[[B0]]
// CHECK-NEXT: kda.add %[[A1]], %[[B1]]

// dx = dy*2^G for every feature alike would hold the terms of dG, but has an axis that dG lacks
kda.kernel "wider" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %g = kda.input "g" role "input" storage f32 : !r
  %s = kda.sum %x over ["d"] : (!f) -> !r
  %up = kda.exp2 %g : (!r) -> !r
  %dy = kda.input "dy" role "cotangent" storage f32 : !r
  %ln2 = kda.constant 1.0 [#ln2] : !k
  %scale = kda.constant 0.5 [] : !k
  %a = kda.mul %dy, %up : (!r, !r) -> !r
  %wide = kda.broadcast %a : (!r) -> !f
  %dx = kda.mul %wide, %scale : (!f, !k) -> !f
  %b = kda.mul %dy, %s : (!r, !r) -> !r
  %c = kda.mul %b, %up : (!r, !r) -> !r
  %dg = kda.mul %c, %ln2 : (!r, !k) -> !r
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %dg as "dg" role "gradient" storage f32 axes ["b", "n", "t", "h"] : !r
}
// CHECK-LABEL: "wider"
// CHECK: %[[DY:.*]] = kda.input "dy"
// CHECK: %[[B:.*]] = kda.mul %[[DY]], %{{.*}} : ({{.*}}[b, n, t, h], f32>, {{.*}}[b, n, t, h], f32>)
// CHECK: kda.output {{.*}} as "dg" role "gradient" storage f32 axes ["b", "n", "t", "h"]
