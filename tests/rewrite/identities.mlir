// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-identities | FileCheck %s
!f = !kda.value<[b, n, t, h, d], f32>
!r = !kda.value<[b, n, t, h], f32>
!c = !kda.value<[b, n, h, d], f32>
!p = !kda.value<[h, d], f32>
!k = !kda.value<[], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
#ln2 = #kda.symbol<"ln2", 0.6931471805599453, 1>

// ---- fires
kda.kernel "fires" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage f32 : !f
  %y = kda.input "y" role "input" storage f32 : !f
  %zero = kda.constant 0.0 [] : !k
  %one = kda.constant 1.0 [] : !k
  %two = kda.constant 2.0 [] : !k
  %minus = kda.constant -1.0 [] : !k
  %scale = kda.constant 3.0 [#ln2] : !k
  %extent = kda.constant 128.0 [] : !k
  // CHECK-LABEL: "fires"
  // CHECK-DAG: %[[X:.*]] = kda.input "x"
  // CHECK-DAG: %[[Y:.*]] = kda.input "y"
  %a0 = kda.mul %one, %x : (!k, !f) -> !f
  %a1 = kda.add %a0, %zero : (!f, !k) -> !f
  %a2 = kda.sub %a1, %zero : (!f, !k) -> !f
  %a3 = kda.neg %a2 : (!f) -> !f
  %a4 = kda.neg %a3 : (!f) -> !f
  // CHECK: kda.output %[[X]] as "a"
  kda.output %a4 as "a" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // CHECK: %[[B:.*]] = kda.sub %[[X]], %[[Y]]
  // CHECK-NEXT: kda.output %[[B]] as "b"
  %b0 = kda.mul %y, %minus : (!f, !k) -> !f
  %b1 = kda.add %b0, %x : (!f, !f) -> !f
  kda.output %b1 as "b" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // CHECK: %[[C:.*]] = kda.mul %[[X]], %[[X]]
  // CHECK-NEXT: kda.output %[[C]] as "c"
  %c0 = kda.pow %x, %two : (!f, !k) -> !f
  kda.output %c0 as "c" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // CHECK: %[[PART:.*]] = kda.constant 7.812500e-03 []
  // CHECK-NEXT: %[[D:.*]] = kda.mul %[[X]], %[[PART]]
  // CHECK-NEXT: kda.output %[[D]] as "d"
  %d0 = kda.div %x, %extent : (!f, !k) -> !f
  kda.output %d0 as "d" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // CHECK: %[[INVERSE:.*]] = kda.constant 0.33333333333333331 [#kda.symbol<"ln2", {{.*}}, -1>]
  // CHECK-NEXT: %[[E:.*]] = kda.mul %[[X]], %[[INVERSE]]
  // CHECK-NEXT: kda.output %[[E]] as "e"
  %e0 = kda.div %x, %scale : (!f, !k) -> !f
  kda.output %e0 as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // CHECK: kda.output %[[Y]] as "f"
  %f0 = kda.exp2 %zero : (!k) -> !k
  %f1 = kda.mul %y, %f0 : (!f, !k) -> !f
  kda.output %f1 as "f" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // CHECK: %[[G:.*]] = kda.sub %[[Y]], %[[X]]
  // CHECK-NEXT: kda.output %[[G]] as "g"
  %g0 = kda.sub %x, %y : (!f, !f) -> !f
  %g1 = kda.neg %g0 : (!f) -> !f
  kda.output %g1 as "g" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}

// ---- must not fire: every op stays
kda.kernel "stays" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage f32 : !f
  %y = kda.input "y" role "input" storage f32 : !f
  %zero = kda.constant 0.0 [] : !k
  %three = kda.constant 3.0 [] : !k
  %half = kda.constant 0.5 [] : !k
  %s = kda.constant 1.0 [#ln2] : !k
  %inverse = kda.constant 1.0 [#kda.symbol<"ln2", 0.6931471805599453, -1>] : !k
  // CHECK-LABEL: "stays"
  // x*0 is NaN where x is infinite
  // CHECK: kda.mul %{{.*}}, %{{.*}}
  %a = kda.mul %x, %zero : (!f, !k) -> !f
  // CHECK-NEXT: kda.output {{.*}} "a"
  kda.output %a as "a" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // 1/3 is not a float
  // CHECK-NEXT: kda.div
  %b = kda.div %x, %three : (!f, !k) -> !f
  // CHECK-NEXT: kda.output {{.*}} "b"
  kda.output %b as "b" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // a constant multiplied after another is another rounding, even if they cancel
  // CHECK-NEXT: kda.mul
  // CHECK-NEXT: kda.mul
  %c0 = kda.mul %x, %s : (!f, !k) -> !f
  %c1 = kda.mul %c0, %inverse : (!f, !k) -> !f
  // CHECK-NEXT: kda.output {{.*}} "c"
  kda.output %c1 as "c" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // (x + y) - y is x only in exact arithmetic
  // CHECK-NEXT: kda.add
  // CHECK-NEXT: kda.sub
  %d0 = kda.add %x, %y : (!f, !f) -> !f
  %d1 = kda.sub %d0, %y : (!f, !f) -> !f
  // CHECK-NEXT: kda.output {{.*}} "d"
  kda.output %d1 as "d" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // powers that are no small positive integers
  // CHECK-NEXT: kda.pow
  %e = kda.pow %x, %half : (!f, !k) -> !f
  // CHECK-NEXT: kda.output {{.*}} "e"
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  // x - x is NaN where x is infinite
  // CHECK-NEXT: kda.sub
  %f = kda.sub %x, %x : (!f, !f) -> !f
  // CHECK-NEXT: kda.output {{.*}} "f"
  kda.output %f as "f" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
