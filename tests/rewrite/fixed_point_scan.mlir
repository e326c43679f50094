// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-fixed-point-scan=saved=saved_sum,saved_gate | FileCheck %s
// RUN: kdagen-opt %s --kda-fixed-point-scan=scan=fixed | FileCheck %s --check-prefix=FIXED
// RUN: kdagen-opt %s --kda-fixed-point-scan=scan=float | FileCheck %s --check-prefix=FLOAT
!f = !kda.value<[b, n, t, h, d], f32>
!c = !kda.value<[b, n, h, d], f32>
!k = !kda.value<[], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
#long = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 64>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
#short = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 8>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]

// FLOAT-NOT: fixed

// ---- fires: every sum of a bounded x that ends as an exponent, and what the exponents are made of
kda.kernel "gate" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -7.25 : f64, upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f loc("g_c"("s.cpp":1:1))
  %total = kda.sum %g over ["t"] : (!f) -> !c
  %n = kda.constant -58.0 [] : !k
  %up = kda.exp2 %s : (!f) -> !f
  %m = kda.neg %s : (!f) -> !f
  %a = kda.add %m, %n : (!f, !k) -> !f
  %down = kda.exp2 %a : (!f) -> !f
  %rest = kda.sub %total, %s : (!c, !f) -> !f
  %end = kda.exp2 %rest : (!f) -> !f
  kda.output %up as "up" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %down as "down" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %end as "end" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %total as "g_T" role "output" storage f32 axes ["b", "n", "h", "d"] : !c
}
// 7.25 * 2^24 = 121634816; 16 rows of it fit 31 bits, 25 fraction bits would not
// CHECK-LABEL: "gate"
// CHECK: %[[G:.*]] = kda.input
// CHECK: %[[X:.*]] = kda.to_fixed %[[G]] limit 121634816 {{.*}} !kda.fixed<24>>
// CHECK-NEXT: %[[S:.*]] = kda.scan %[[X]] {{.*}} !kda.fixed<24>>
// CHECK-NEXT: %[[T:.*]] = kda.sum %[[X]] {{.*}} !kda.fixed<24>>
// CHECK-NEXT: %[[READ:.*]] = kda.from_fixed %[[T]]
// CHECK-NEXT: %[[UP:.*]] = kda.exp2 %[[S]]
// CHECK-NEXT: %[[N:.*]] = kda.constant -5.800000e+01 [] : <[], !kda.fixed<24>>
// CHECK-NEXT: %[[A:.*]] = kda.sub %[[N]], %[[S]]
// CHECK-NEXT: %[[DOWN:.*]] = kda.exp2 %[[A]]
// CHECK-NEXT: %[[REST:.*]] = kda.sub %[[T]], %[[S]]
// CHECK-NEXT: %[[END:.*]] = kda.exp2 %[[REST]]
// CHECK-NOT: from_fixed
// CHECK: kda.output %[[READ]] as "g_T"

// as many fraction bits as there is room for: 64 rows of 7.25 leave 22, 8 rows of 0.125 all 30
kda.kernel "long" "fwd" axes #long parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -7.25 : f64, upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive true reverse true : (!f) -> !f
  %e = kda.exp2 %s : (!f) -> !f
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "long"
// CHECK: kda.scan {{.*}} exclusive true reverse true {{.*}} !kda.fixed<22>>
kda.kernel "short" "fwd" axes #short parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -0.125 : f64, upper = 0.125 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %e = kda.exp2 %s : (!f) -> !f
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "short"
// CHECK: kda.scan {{.*}} !kda.fixed<30>>

// a constant between two units, and a product, read the sum as a float
kda.kernel "readers" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -7.25 : f64, upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %e = kda.exp2 %s : (!f) -> !f
  %third = kda.constant 0.3 [] : !k
  %a = kda.add %s, %third : (!f, !k) -> !f
  %ea = kda.exp2 %a : (!f) -> !f
  %p = kda.mul %s, %g : (!f, !f) -> !f
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %ea as "ea" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %p as "p" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "readers"
// CHECK: %[[S:.*]] = kda.scan {{.*}} !kda.fixed<24>>
// CHECK-NEXT: %[[F:.*]] = kda.from_fixed %[[S]]
// CHECK-NEXT: kda.exp2 %[[S]]
// CHECK: %[[A:.*]] = kda.add %[[F]]
// CHECK-NEXT: kda.exp2 %[[A]]
// CHECK-NEXT: kda.mul %[[F]]

// a difference that does not fit (-7.25*16 - 58) is one of floats
kda.kernel "wide" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -7.25 : f64, upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %n = kda.constant 58.0 [] : !k
  %a = kda.sub %s, %n : (!f, !k) -> !f
  %e = kda.exp2 %a : (!f) -> !f
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "wide"
// CHECK: %[[S:.*]] = kda.scan {{.*}} !kda.fixed<24>>
// CHECK-NEXT: %[[F:.*]] = kda.from_fixed %[[S]]
// CHECK: kda.sub %[[F]]

// a scaled sigmoid is rounded from its small side; not if it is saved, nor a sigmoid with something else
kda.kernel "sigmoid" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %z = kda.input "z" role "input" storage f32 : !f
  %u = kda.input "u" role "input" storage f32 : !f
  %w = kda.input "w" role "input" storage f32 {lower = -7.25 : f64, upper = 7.25 : f64} : !f
  %c = kda.constant -7.25 [] : !k
  %sz = kda.sigmoid %z : (!f) -> !f
  %g = kda.mul %sz, %c : (!f, !k) -> !f
  %su = kda.sigmoid %u : (!f) -> !f
  %saved = kda.mul %su, %c : (!f, !k) -> !f loc("saved_gate"("s.cpp":1:1))
  %other = kda.mul %su, %w : (!f, !f) -> !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %t = kda.scan %saved over "t" exclusive false reverse false : (!f) -> !f
  %v = kda.scan %other over "t" exclusive false reverse false : (!f) -> !f
  %es = kda.exp2 %s : (!f) -> !f
  %et = kda.exp2 %t : (!f) -> !f
  %ev = kda.exp2 %v : (!f) -> !f
  kda.output %es as "es" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %et as "et" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %ev as "ev" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "sigmoid"
// CHECK: kda.to_fixed {{.*}} limit 121634816 {kda.small_side} :
// CHECK: kda.to_fixed {{.*}} limit 121634816 :
// CHECK: kda.to_fixed {{.*}} limit 121634816 :

// nor one that is proven small, of a factor that its format does not hold
kda.kernel "far_on_the_small_side" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %z = kda.input "z" role "input" storage f32 {lower = -9.0 : f64, upper = -5.0 : f64} : !f
  %c = kda.constant -7.25 [] : !k
  %sz = kda.sigmoid %z : (!f) -> !f
  %g = kda.mul %sz, %c : (!f, !k) -> !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %es = kda.exp2 %s : (!f) -> !f
  kda.output %es as "es" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "far_on_the_small_side"
// CHECK: kda.to_fixed {{.*}} limit 52101357 : {{.*}}fixed<30>

// ---- must not fire
// no bound, or none on one side
kda.kernel "unbounded" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 : !f
  %u = kda.input "u" role "input" storage f32 {upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %us = kda.scan %u over "t" exclusive false reverse false : (!f) -> !f
  %e = kda.exp2 %s : (!f) -> !f
  %eu = kda.exp2 %us : (!f) -> !f
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %eu as "eu" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "unbounded"
// CHECK-NOT: fixed
// FIXED-LABEL: "unbounded"
// FIXED-NOT: fixed

// 16 rows of 200 leave 19 fraction bits
kda.kernel "coarse" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -200.0 : f64, upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %e = kda.exp2 %s : (!f) -> !f
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "coarse"
// CHECK-NOT: fixed
// FIXED-LABEL: "coarse"
// FIXED-NOT: fixed

// no exponent, not one through a product, and no 2^x but e^x: only when asked for
kda.kernel "no_exponent" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -1.0 : f64, upper = 0.0 : f64} : !f
  %u = kda.input "u" role "input" storage f32 {lower = -1.0 : f64, upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %us = kda.scan %u over "t" exclusive false reverse false : (!f) -> !f
  %p = kda.mul %s, %s : (!f, !f) -> !f
  %e = kda.exp2 %p : (!f) -> !f
  %natural = kda.exp %us : (!f) -> !f
  kda.output %s as "s" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %natural as "natural" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "no_exponent"
// CHECK-NOT: fixed
// FIXED-LABEL: "no_exponent"
// FIXED: kda.scan {{.*}} !kda.fixed<26>>
// FIXED: kda.scan {{.*}} !kda.fixed<26>>

// sums over columns, over columns and rows, and over tiles
kda.kernel "other_sums" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -0.01 : f64, upper = 0.0 : f64} : !f
  %r = kda.sum %g over ["d"] : (!f) -> !kda.value<[b, n, t, h], f32>
  %both = kda.sum %g over ["t", "d"] : (!f) -> !kda.value<[b, n, h], f32>
  %er = kda.exp2 %r : (!kda.value<[b, n, t, h], f32>) -> !kda.value<[b, n, t, h], f32>
  %eb = kda.exp2 %both : (!kda.value<[b, n, h], f32>) -> !kda.value<[b, n, h], f32>
  kda.output %er as "er" role "output" storage f32 axes ["b", "n", "t", "h"] : !kda.value<[b, n, t, h], f32>
  kda.output %eb as "eb" role "output" storage f32 axes ["b", "n", "h"] : !kda.value<[b, n, h], f32>
}
// CHECK-LABEL: "other_sums"
// CHECK-NOT: fixed
// FIXED-LABEL: "other_sums"
// FIXED-NOT: fixed

// the sum is saved: the backward would read a float
kda.kernel "saved" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -1.0 : f64, upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %m = kda.neg %s : (!f) -> !f loc("saved_sum"("s.cpp":1:1))
  %e = kda.exp2 %m : (!f) -> !f
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "saved"
// CHECK-NOT: fixed
// CHECK-LABEL: "end"
// FIXED-LABEL: "saved"
// FIXED: kda.scan {{.*}} !kda.fixed<26>>
// FIXED-LABEL: "end"
kda.kernel "end" "fwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
}

// anchors by sub-chunk: the boundary, its nearest integer and the difference stay integers; the anchor itself is read as a float
kda.kernel "anchored" "fwd" axes #long parallel ["b", "n", "h"] sequential [] options {} {
  %g = kda.input "g" role "input" storage f32 {lower = -7.25 : f64, upper = 0.0 : f64} : !f
  %s = kda.scan %g over "t" exclusive false reverse false : (!f) -> !f
  %b = kda.boundary %s over "t" every 16 : (!f) -> !f
  %r = kda.rint %b : (!f) -> !f
  %n = kda.constant 58.0 [] : !k
  %a = kda.sub %n, %r : (!k, !f) -> !f
  %x = kda.add %s, %a : (!f, !f) -> !f
  %e = kda.exp2 %x : (!f) -> !f
  kda.output %e as "e" role "output" storage f32 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %a as "a" role "output" storage i32 axes ["b", "n", "t", "h", "d"] {every = 16 : i64} : !f
}
// CHECK-LABEL: "anchored"
// CHECK: %[[S:.*]] = kda.scan {{.*}} !kda.fixed<22>>
// CHECK-NEXT: %[[B:.*]] = kda.boundary %[[S]] {{.*}} !kda.fixed<22>>
// CHECK-NEXT: %[[R:.*]] = kda.rint %[[B]] {{.*}} !kda.fixed<22>>
// CHECK-NEXT: %[[N:.*]] = kda.constant {{.*}} !kda.fixed<22>>
// CHECK-NEXT: %[[A:.*]] = kda.sub %[[N]], %[[R]]
// CHECK-NEXT: %[[READ:.*]] = kda.from_fixed %[[A]]
// CHECK-NEXT: %[[X:.*]] = kda.add %[[S]], %[[A]]
// CHECK-NEXT: %[[E:.*]] = kda.exp2 %[[X]]
// CHECK-NEXT: kda.output %[[E]] as "e"
// CHECK-NEXT: kda.output %[[READ]] as "a"
