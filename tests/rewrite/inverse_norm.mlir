// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-inverse-norm | FileCheck %s
!f = !kda.value<[b, n, t, h, d], f32>
!r = !kda.value<[b, n, t, h], f32>
!c = !kda.value<[b, n, h, d], f32>
!k = !kda.value<[], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]

// ---- fires
kda.kernel "fires" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %xx = kda.mul %x, %x : (!f, !f) -> !f
  %s = kda.sum %xx over ["d"] : (!f) -> !r
  %e = kda.constant 1.0e-6 [] : !k
  %c = kda.constant 0.0078125 [] : !k
  // CHECK-LABEL: "fires"
  // CHECK-DAG: %[[X:.*]] = kda.input "x"
  // CHECK-DAG: %[[E:.*]] = kda.constant 9.9{{.*}} []
  // CHECK-DAG: %[[C:.*]] = kda.constant 7.812500e-03 []
  // CHECK-NOT: kda.rsqrt
  // CHECK: kda.inverse_norm %[[X]], %{{.*}}, %[[E]] over ["d"]
  %a0 = kda.add %s, %e : (!r, !k) -> !r
  %a = kda.rsqrt %a0 : (!r) -> !r
  kda.output %a as "a" role "output" storage f32 axes ["b", "n", "t", "h"] : !r
  // CHECK: kda.inverse_norm %[[X]], %[[C]], %[[E]] over ["d"]
  %b0 = kda.mul %s, %c : (!r, !k) -> !r
  %b1 = kda.add %e, %b0 : (!k, !r) -> !r
  %b = kda.rsqrt %b1 : (!r) -> !r
  kda.output %b as "b" role "output" storage f32 axes ["b", "n", "t", "h"] : !r
  // without eps
  // CHECK: kda.inverse_norm %[[X]], %{{.*}}, %{{.*}} over ["d"]
  %d = kda.rsqrt %s : (!r) -> !r
  kda.output %d as "c" role "output" storage f32 axes ["b", "n", "t", "h"] : !r
}

// ---- a bounded x cannot overflow
kda.kernel "bounded" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage f16 : !f
  %xx = kda.mul %x, %x : (!f, !f) -> !f
  %s = kda.sum %xx over ["d"] : (!f) -> !r
  // CHECK-LABEL: "bounded"
  // CHECK-NOT: kda.inverse_norm
  // CHECK: kda.rsqrt
  %a = kda.rsqrt %s : (!r) -> !r
  kda.output %a as "a" role "output" storage f32 axes ["b", "n", "t", "h"] : !r
}

// ---- not a sum of squares, not of features, no constants, a large eps
kda.kernel "others" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %y = kda.input "y" role "input" storage bf16 : !f
  %v = kda.input "v" role "input" storage f32 : !r
  // CHECK-LABEL: "others"
  // CHECK-NOT: kda.inverse_norm
  %xy = kda.mul %x, %y : (!f, !f) -> !f
  %xx = kda.mul %x, %x : (!f, !f) -> !f
  %s = kda.sum %xy over ["d"] : (!f) -> !r
  %a = kda.rsqrt %s : (!r) -> !r
  kda.output %a as "a" role "output" storage f32 axes ["b", "n", "t", "h"] : !r
  %t = kda.sum %xx over ["t"] : (!f) -> !c
  %b = kda.rsqrt %t : (!c) -> !c
  kda.output %b as "b" role "output" storage f32 axes ["b", "n", "h", "d"] : !c
  %u = kda.sum %xx over ["d"] : (!f) -> !r
  %w = kda.add %u, %v : (!r, !r) -> !r
  %c = kda.rsqrt %w : (!r) -> !r
  kda.output %c as "c" role "output" storage f32 axes ["b", "n", "t", "h"] : !r
  %large = kda.constant 4.0 [] : !k
  %p = kda.add %u, %large : (!r, !k) -> !r
  %q = kda.rsqrt %p : (!r) -> !r
  kda.output %q as "d" role "output" storage f32 axes ["b", "n", "t", "h"] : !r
}
