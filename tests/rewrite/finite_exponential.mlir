// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-finite-exponential | FileCheck %s
!f = !kda.value<[b, n, t, h, d], f32>
!c = !kda.value<[b, n, h, d], f32>
!p = !kda.value<[h, d], f32>
!k = !kda.value<[], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]

// ---- fires: a positive one has only the upper bound, once for all its uses
kda.kernel "rate" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %a = kda.input "a" role "param" storage f32 : !p
  %x = kda.input "x" role "input" storage f32 : !f
  %y = kda.input "y" role "input" storage f32 : !f
  // CHECK-LABEL: "rate"
  // CHECK: %[[E:.*]] = kda.exp
  // CHECK: %[[M:.*]] = kda.constant 3.402823466{{.*}} []
  // CHECK: %[[F:.*]] = kda.min %[[E]], %[[M]]
  // CHECK-NOT: kda.m{{in|ax}}
  // CHECK: kda.mul %{{.*}}, %[[F]]
  // CHECK: kda.mul %[[F]], %{{.*}}
  // CHECK-NOT: kda.m{{in|ax}}
  // CHECK: kda.output
  %e = kda.exp %a : (!p) -> !p
  %u = kda.mul %x, %e : (!f, !p) -> !f
  %v = kda.mul %e, %y : (!p, !f) -> !f
  %w = kda.add %u, %v : (!f, !f) -> !f
  kda.output %w as "w" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}

// ---- fires: a negative product of parameters, where it meets the rows; its factors stay as they are
kda.kernel "product" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %a = kda.input "a" role "param" storage f32 : !p
  %x = kda.input "x" role "input" storage f32 : !f
  // CHECK-LABEL: "product"
  // CHECK: %[[E:.*]] = kda.exp2
  // CHECK: %[[N:.*]] = kda.neg %[[E]]
  // CHECK: %[[M:.*]] = kda.constant -3.402823466{{.*}} []
  // CHECK: %[[F:.*]] = kda.max %[[N]], %[[M]]
  // CHECK-NOT: kda.min
  // CHECK: kda.mul %[[F]]
  %e = kda.exp2 %a : (!p) -> !p
  %n = kda.neg %e : (!p) -> !p
  %u = kda.mul %n, %x : (!p, !f) -> !f
  kda.output %u as "u" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}

// ---- fires: the factor is multiplied last, in each product that takes it further
kda.kernel "last" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %a = kda.input "a" role "param" storage f32 : !p
  %x = kda.input "x" role "input" storage f32 : !f
  %y = kda.input "y" role "input" storage f32 : !f
  // CHECK-LABEL: "last"
  // CHECK: %[[X:.*]] = kda.input "x"
  // CHECK: %[[Y:.*]] = kda.input "y"
  // CHECK: %[[F:.*]] = kda.min
  // CHECK: %[[XY:.*]] = kda.mul %[[X]], %[[Y]]
  // CHECK: %[[XYY:.*]] = kda.mul %[[XY]], %[[Y]]
  // CHECK: kda.mul %[[XYY]], %[[F]]
  // CHECK: %[[XX:.*]] = kda.mul %[[X]], %[[X]]
  // CHECK: kda.mul %[[XX]], %[[F]]
  %e = kda.exp %a : (!p) -> !p
  %u = kda.mul %x, %e : (!f, !p) -> !f
  %v = kda.mul %u, %y : (!f, !f) -> !f
  %w = kda.mul %v, %y : (!f, !f) -> !f
  kda.output %w as "w" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  %z = kda.mul %x, %u : (!f, !f) -> !f
  kda.output %z as "z" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}

// ---- the product is written, too: it stays
kda.kernel "written" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %a = kda.input "a" role "param" storage f32 : !p
  %x = kda.input "x" role "input" storage f32 : !f
  // CHECK-LABEL: "written"
  // CHECK: %[[F:.*]] = kda.min
  // CHECK: %[[U:.*]] = kda.mul %{{.*}}, %[[F]]
  // CHECK: kda.mul %[[U]]
  %e = kda.exp %a : (!p) -> !p
  %u = kda.mul %x, %e : (!f, !p) -> !f
  kda.output %u as "u" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  %v = kda.mul %u, %x : (!f, !f) -> !f
  kda.output %v as "v" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}

// ---- fires behind the sum over the rows, where a parameter's gradient is made
kda.kernel "gradient" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %a = kda.input "a" role "param" storage f32 : !p
  %dy = kda.input "dy" role "cotangent" storage f32 : !f
  // CHECK-LABEL: "gradient"
  // CHECK: %[[F:.*]] = kda.min
  // CHECK: %[[S:.*]] = kda.sum %{{.*}} over ["b", "n"]
  // CHECK: kda.mul %[[S]], %[[F]]
  %e = kda.exp %a : (!p) -> !p
  %s = kda.sum %dy over ["t"] : (!f) -> !c
  %t = kda.sum %s over ["b", "n"] : (!c) -> !p
  %da = kda.mul %t, %e : (!p, !p) -> !p
  kda.output %da as "da" role "param_gradient" storage f32 axes ["h", "d"] : !p
}

// ---- must not fire: a bounded exponent, a parameter itself, an exponential of an input, products of parameters alone
kda.kernel "others" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %a = kda.input "a" role "param" storage f32 : !p
  %x = kda.input "x" role "input" storage f32 : !f
  // CHECK-LABEL: "others"
  // CHECK-NOT: kda.m{{in|ax}}
  // CHECK: kda.output
  // CHECK: kda.output
  // CHECK: kda.output
  // CHECK: kda.output
  %s = kda.sigmoid %a : (!p) -> !p
  %e = kda.exp %s : (!p) -> !p
  %u = kda.mul %e, %x : (!p, !f) -> !f
  kda.output %u as "u" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  %v = kda.mul %a, %x : (!p, !f) -> !f
  kda.output %v as "v" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  %g = kda.exp %x : (!f) -> !f
  %w = kda.mul %g, %x : (!f, !f) -> !f
  kda.output %w as "w" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  %i = kda.exp %a : (!p) -> !p
  %j = kda.mul %i, %a : (!p, !p) -> !p
  %k = kda.add %j, %x : (!p, !f) -> !f
  kda.output %k as "k" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
