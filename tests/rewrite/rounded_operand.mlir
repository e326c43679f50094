// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-rounded-operand=rounded=true | FileCheck %s
// RUN: kdagen-opt %s --kda-rounded-operand | FileCheck %s --check-prefix=EXACT
!f = !kda.value<[b, n, t, h, d], f32>
!r = !kda.value<[b, n, t, h], f32>
!c = !kda.value<[b, n, h, d], f32>
!p = !kda.value<[h, d], f32>
!k = !kda.value<[], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
#ln2 = #kda.symbol<"ln2", 0.6931471805599453, 1>
#log2e = #kda.symbol<"ln2", 0.6931471805599453, -1>

// the forward: what is stored how
kda.kernel "decays" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %g = kda.input "g" role "input" storage f32 : !f
  %scale = kda.constant 0.125 [] : !k
  %u = kda.exp2 %g : (!f) -> !f
  %v = kda.exp %g : (!f) -> !f
  %a0 = kda.mul %x, %u : (!f, !f) -> !f
  %a = kda.mul %a0, %scale : (!f, !k) -> !f
  kda.output %a as "a" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !f
  %b = kda.mul %x, %v : (!f, !f) -> !f
  kda.output %b as "b" role "output" storage f16 axes ["b", "n", "t", "h", "d"] : !f
  %c = kda.mul %g, %u : (!f, !f) -> !f
  kda.output %c as "c" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  %t = kda.tanh %g : (!f) -> !f
  %e = kda.mul %x, %t : (!f, !f) -> !f
  kda.output %e as "e" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !f
  // numbers of a row, for every feature: once as they are, once with a factor behind the broadcast
  %s = kda.input "s" role "input" storage f32 : !r
  %w = kda.exp %s : (!r) -> !r
  %m = kda.broadcast %w : (!r) -> !f
  kda.output %m as "m" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !f
  %o = kda.mul %m, %scale : (!f, !k) -> !f
  kda.output %o as "o" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !f
}
// EXACT-NOT: kda.round

// ---- fires: dG of a and b
kda.kernel "decays" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %g = kda.input "g" role "input" storage f32 : !f
  %scale = kda.constant 0.125 [] : !k
  %ln2 = kda.constant 1.0 [#ln2] : !k
  %u = kda.exp2 %g : (!f) -> !f
  %v = kda.exp %g : (!f) -> !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  // CHECK-LABEL: "decays" "bwd"
  // CHECK-DAG: %[[X:.*]] = kda.input "x"
  // CHECK-DAG: %[[U:.*]] = kda.exp2
  // CHECK-DAG: %[[V:.*]] = kda.exp %
  // CHECK: %[[A0:.*]] = kda.mul %[[X]], %[[U]]
  // CHECK: %[[A1:.*]] = kda.mul %[[A0]], %
  // CHECK: %[[A:.*]] = kda.round %[[A1]] to bf16
  // CHECK: %[[B1:.*]] = kda.mul %[[X]], %[[V]]
  // CHECK: %[[B:.*]] = kda.round %[[B1]] to f16
  // CHECK: %[[DA:.*]] = kda.input "da"
  // CHECK: %[[DB:.*]] = kda.input "db"
  %a0 = kda.mul %da, %scale : (!f, !k) -> !f
  // the cotangent of x stays
  // CHECK: %[[P0:.*]] = kda.mul %[[DA]]
  // CHECK-NEXT: %[[P:.*]] = kda.mul %[[P0]], %[[U]]
  // CHECK-NEXT: %[[Q:.*]] = kda.mul %[[DB]], %[[V]]
  // CHECK-NEXT: %[[DX:.*]] = kda.add %[[P]], %[[Q]]
  %p = kda.mul %a0, %u : (!f, !f) -> !f
  %q = kda.mul %db, %v : (!f, !f) -> !f
  %dx = kda.add %p, %q : (!f, !f) -> !f
  // CHECK: %[[GA:.*]] = kda.mul %[[DA]], %[[A]]
  // CHECK-NEXT: %[[GAL:.*]] = kda.mul %[[GA]], %
  // CHECK-NEXT: %[[GB:.*]] = kda.mul %[[DB]], %[[B]]
  // CHECK-NEXT: kda.add %[[GAL]], %[[GB]]
  %ga0 = kda.mul %a0, %x : (!f, !f) -> !f
  %ga1 = kda.mul %ga0, %u : (!f, !f) -> !f
  %ga2 = kda.mul %ga1, %ln2 : (!f, !k) -> !f
  %gb0 = kda.mul %db, %x : (!f, !f) -> !f
  %gb1 = kda.mul %gb0, %v : (!f, !f) -> !f
  %dg = kda.add %ga2, %gb1 : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %dg as "dg" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}

// ---- fires: the number of a row is rounded as that. Must not: the broadcast stands among the factors of o
kda.kernel "rows" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %scale = kda.constant 0.125 [] : !k
  %s = kda.input "s" role "input" storage f32 : !r
  %w = kda.exp %s : (!r) -> !r
  %dm = kda.input "dm" role "cotangent" storage f32 : !f
  %do = kda.input "do" role "cotangent" storage f32 : !f
  // CHECK-LABEL: "rows"
  // CHECK: %[[W:.*]] = kda.exp
  // CHECK: %[[M:.*]] = kda.round %[[W]] to bf16 : (!kda.value<[b, n, t, h], f32>)
  // CHECK-NOT: kda.round
  // CHECK: %[[SM:.*]] = kda.sum
  // CHECK: kda.mul %[[SM]], %[[M]]
  // CHECK: %[[SO:.*]] = kda.sum
  // CHECK: kda.mul %[[SO]], %[[W]]
  %sm = kda.sum %dm over ["d"] : (!f) -> !r
  %gm = kda.mul %sm, %w : (!r, !r) -> !r
  kda.output %gm as "gm" role "gradient" storage f32 axes ["b", "n", "t", "h"] : !r
  %so = kda.sum %do over ["d"] : (!f) -> !r
  %go0 = kda.mul %so, %w : (!r, !r) -> !r
  %go = kda.mul %go0, %scale : (!r, !k) -> !r
  kda.output %go as "go" role "gradient" storage f32 axes ["b", "n", "t", "h"] : !r
}

// ---- must not fire
kda.kernel "others" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %g = kda.input "g" role "input" storage f32 : !f
  %scale = kda.constant 0.125 [] : !k
  %ln2 = kda.constant 1.0 [#ln2] : !k
  %u = kda.exp2 %g : (!f) -> !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  %dc = kda.input "dc" role "cotangent" storage f32 : !f
  %de = kda.input "de" role "cotangent" storage f32 : !f
  // CHECK-LABEL: "others"
  // CHECK-NOT: kda.round
  // c is stored as f32
  %c0 = kda.mul %dc, %g : (!f, !f) -> !f
  %c1 = kda.mul %c0, %u : (!f, !f) -> !f
  %c2 = kda.mul %c1, %ln2 : (!f, !k) -> !f
  kda.output %c2 as "c" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // e holds no exponential: its product with its cotangent is another thing
  %t = kda.tanh %g : (!f) -> !f
  %e0 = kda.mul %de, %x : (!f, !f) -> !f
  %e1 = kda.mul %e0, %t : (!f, !f) -> !f
  %e2 = kda.mul %e1, %ln2 : (!f, !k) -> !f
  kda.output %e2 as "e" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // the factors of a, but the cotangent of b
  %b0 = kda.mul %db, %x : (!f, !f) -> !f
  %b1 = kda.mul %b0, %u : (!f, !f) -> !f
  %b2 = kda.mul %b1, %ln2 : (!f, !k) -> !f
  kda.output %b2 as "b" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // a*da without the ln2 of an exponent: <dx, x> of some norm
  %a0 = kda.mul %da, %scale : (!f, !k) -> !f
  %a1 = kda.mul %a0, %x : (!f, !f) -> !f
  %a2 = kda.mul %a1, %u : (!f, !f) -> !f
  %a3 = kda.sum %a2 over ["d"] : (!f) -> !r
  kda.output %a3 as "a" role "gradient" storage f32 axes ["b", "n", "t", "h"] : !r
  // dx of a
  %f0 = kda.mul %a0, %u : (!f, !f) -> !f
  kda.output %f0 as "f" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // another factor beside those of a
  %h0 = kda.mul %a2, %g : (!f, !f) -> !f
  %h1 = kda.mul %h0, %ln2 : (!f, !k) -> !f
  // CHECK: kda.output {{.*}} as "h"
  kda.output %h1 as "h" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
