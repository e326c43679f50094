// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-stable-sigmoid | FileCheck %s
!f = !kda.value<[b, n, t, h, d], f32>
!r = !kda.value<[b, n, t, h], f32>
!c = !kda.value<[b, n, h, d], f32>
!p = !kda.value<[h, d], f32>
!k = !kda.value<[], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
#ln2 = #kda.symbol<"ln2", 0.6931471805599453, 1>

// ---- fires
kda.kernel "fires" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %z = kda.input "z" role "input" storage f32 : !f
  %dy = kda.input "dy" role "cotangent" storage f32 : !f
  %one = kda.constant 1.0 [] : !k
  %s = kda.sigmoid %z : (!f) -> !f
  %m = kda.sub %one, %s : (!k, !f) -> !f
  // CHECK-LABEL: "fires"
  // CHECK-DAG: %[[Z:.*]] = kda.input "z"
  // CHECK-DAG: %[[DY:.*]] = kda.input "dy"
  // CHECK-NOT: kda.sub
  // dy*(s*(1-s))
  // CHECK: %[[GRAD:.*]] = kda.sigmoid_grad %[[Z]]
  // CHECK-NEXT: %[[A:.*]] = kda.mul %[[DY]], %[[GRAD]]
  // CHECK-NEXT: kda.output %[[A]] as "a"
  %a0 = kda.mul %s, %m : (!f, !f) -> !f
  %a1 = kda.mul %dy, %a0 : (!f, !f) -> !f
  kda.output %a1 as "a" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // ((1-s)*(dy*z))*s: any association, other factors between
  // CHECK-NEXT: %[[B0:.*]] = kda.mul %[[DY]], %[[Z]]
  // CHECK-NEXT: %[[B1:.*]] = kda.mul %[[B0]], %[[GRAD]]
  // CHECK-NEXT: kda.output %[[B1]] as "b"
  %b0 = kda.mul %dy, %z : (!f, !f) -> !f
  %b1 = kda.mul %m, %b0 : (!f, !f) -> !f
  %b2 = kda.mul %b1, %s : (!f, !f) -> !f
  kda.output %b2 as "b" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // dy*s - (dy*s)*s
  // CHECK-NEXT: kda.output %[[A]] as "c"
  %c0 = kda.mul %dy, %s : (!f, !f) -> !f
  %c1 = kda.mul %c0, %s : (!f, !f) -> !f
  %c2 = kda.sub %c0, %c1 : (!f, !f) -> !f
  kda.output %c2 as "c" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // s(z)*s(-z)
  // CHECK-NEXT: kda.output %[[A]] as "d"
  %d0 = kda.neg %z : (!f) -> !f
  %d1 = kda.sigmoid %d0 : (!f) -> !f
  %d2 = kda.mul %s, %d1 : (!f, !f) -> !f
  %d3 = kda.mul %dy, %d2 : (!f, !f) -> !f
  kda.output %d3 as "d" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}

// ---- must not fire
kda.kernel "stays" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %z = kda.input "z" role "input" storage f32 : !f
  %w = kda.input "w" role "input" storage f32 : !f
  %dy = kda.input "dy" role "cotangent" storage f32 : !f
  %one = kda.constant 1.0 [] : !k
  %two = kda.constant 2.0 [] : !k
  %s = kda.sigmoid %z : (!f) -> !f
  %u = kda.sigmoid %w : (!f) -> !f
  %m = kda.sub %one, %s : (!k, !f) -> !f
  // CHECK-LABEL: "stays"
  // CHECK-NOT: kda.sigmoid_grad
  // of two different arguments
  %a0 = kda.mul %u, %m : (!f, !f) -> !f
  %a1 = kda.mul %dy, %a0 : (!f, !f) -> !f
  kda.output %a1 as "a" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // 1-s alone
  %b = kda.mul %dy, %m : (!f, !f) -> !f
  kda.output %b as "b" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // s*(2-s)
  %c0 = kda.sub %two, %s : (!k, !f) -> !f
  %c1 = kda.mul %s, %c0 : (!f, !f) -> !f
  %c2 = kda.mul %dy, %c1 : (!f, !f) -> !f
  kda.output %c2 as "c" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // s*(s-1), the other way round
  %d0 = kda.sub %s, %one : (!f, !k) -> !f
  %d1 = kda.mul %s, %d0 : (!f, !f) -> !f
  %d2 = kda.mul %dy, %d1 : (!f, !f) -> !f
  kda.output %d2 as "d" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // dy*u - (dy*s)*s
  %e0 = kda.mul %dy, %u : (!f, !f) -> !f
  %e1 = kda.mul %dy, %s : (!f, !f) -> !f
  %e2 = kda.mul %e1, %s : (!f, !f) -> !f
  %e3 = kda.sub %e0, %e2 : (!f, !f) -> !f
  kda.output %e3 as "e" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // t*(1-t), t = tanh(z)
  %f0 = kda.tanh %z : (!f) -> !f
  %f1 = kda.sub %one, %f0 : (!k, !f) -> !f
  %f2 = kda.mul %f0, %f1 : (!f, !f) -> !f
  %f3 = kda.mul %dy, %f2 : (!f, !f) -> !f
  // CHECK: kda.output {{.*}} as "f"
  kda.output %f3 as "f" role "gradient" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
