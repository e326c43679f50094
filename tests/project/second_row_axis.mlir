// SPDX-License-Identifier: Apache-2.0
// A second row axis, a second feature axis and a sequential chunk axis are legal (docs/design/k2-by-hand.md).
// RUN: kdagen-opt %s | kdagen-opt | FileCheck %s
// CHECK: parallel ["b", "h"] sequential ["n"]
// CHECK: kda.less {{.*}} -> !kda.value<[t, s], i1>
// CHECK: kda.select {{.*}} -> !kda.value<[b, n, t, s, h], f32>
// CHECK: kda.round {{.*}} to bf16
// CHECK: kda.output
!td = !kda.value<[b, n, t, h, d], f32>
!ts = !kda.value<[b, n, t, s, h], f32>
!t  = !kda.value<[b, n, t, h], f32>
kda.kernel "kda_k2" "fwd"
    axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"s", rows, 16>,
          #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>, #kda.axis<"e", feature, 128>]
    parallel ["b", "h"] sequential ["n"] options {chunk = 16 : i64} {
  %q_d  = kda.input "q_d" role "input" storage bf16 : !td
  %beta = kda.input "beta" role "input" storage bf16 : !t
  %row  = kda.index "t" : !kda.value<[t], f32>
  %col  = kda.index "s" : !kda.value<[s], f32>
  %zero = kda.constant 0.0 [] : !kda.value<[], f32>
  %below = kda.less %col, %row : (!kda.value<[s], f32>, !kda.value<[t], f32>) -> !kda.value<[t, s], i1>
  %m = kda.select %below, %beta, %zero : (!kda.value<[t, s], i1>, !t, !kda.value<[], f32>) -> !ts
  %q_b  = kda.round %q_d to bf16 : (!td) -> !td
  kda.output %q_b as "o" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !td
}
