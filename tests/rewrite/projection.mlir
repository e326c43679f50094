// SPDX-License-Identifier: Apache-2.0
// RUN: kdagen-opt %s --kda-projection | FileCheck %s
!f = !kda.value<[b, n, t, h, d], f32>
!r = !kda.value<[b, n, t, h], f32>
!c = !kda.value<[b, n, h, d], f32>
!p = !kda.value<[h, d], f32>
!k = !kda.value<[], f32>
#axes = [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 128>]
#ln2 = #kda.symbol<"ln2", 0.6931471805599453, 1>

// ---- fires
// y = x*rsqrt(sum x^2 + eps), y used twice: dy = da + db
kda.kernel "euclidean" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %eps = kda.constant 1.0e-06 [] : !k
  %x2 = kda.mul %x, %x : (!f, !f) -> !f
  %s2 = kda.sum %x2 over ["d"] : (!f) -> !r
  %u = kda.add %s2, %eps : (!r, !k) -> !r
  %inv = kda.rsqrt %u : (!r) -> !r
  %y = kda.mul %x, %inv : (!f, !r) -> !f
  %da = kda.input "da" role "cotangent" storage f32 : !f
  %db = kda.input "db" role "cotangent" storage f32 : !f
  %dy = kda.add %da, %db : (!f, !f) -> !f
  %d1 = kda.mul %dy, %inv : (!f, !r) -> !f
  %dyx = kda.mul %dy, %x : (!f, !f) -> !f
  %dinv = kda.sum %dyx over ["d"] : (!f) -> !r
  %half = kda.constant -0.5 [] : !k
  %c0 = kda.mul %dinv, %half : (!r, !k) -> !r
  %i2 = kda.mul %inv, %inv : (!r, !r) -> !r
  %i3 = kda.mul %i2, %inv : (!r, !r) -> !r
  %du = kda.mul %c0, %i3 : (!r, !r) -> !r
  %d2 = kda.mul %du, %x : (!r, !f) -> !f
  %d3 = kda.add %d2, %d2 : (!f, !f) -> !f
  %dx = kda.add %d3, %d1 : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage bf16 axes ["b", "n", "t", "h", "d"] : !f
  kda.output %y as "y" role "tap" storage f32 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "euclidean"
// CHECK: %[[INV:.*]] = kda.rsqrt
// CHECK: %[[Y:.*]] = kda.mul %{{.*}}, %[[INV]]
// CHECK: %[[DY:.*]] = kda.add
// CHECK-NEXT: %[[DYY:.*]] = kda.mul %[[DY]], %[[Y]]
// CHECK-NEXT: %[[ALONG:.*]] = kda.sum %[[DYY]] over ["d"]
// CHECK-NEXT: %[[PART:.*]] = kda.mul %[[Y]], %[[ALONG]]
// CHECK-NEXT: %[[REST:.*]] = kda.sub %[[DY]], %[[PART]]
// CHECK-NEXT: %[[DX:.*]] = kda.mul %[[REST]], %[[INV]]
// CHECK-NEXT: kda.output %[[DX]] as "dx"

// the mean form, a weight behind it, and x used elsewhere too: one summand stays as it is
kda.kernel "mean" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %w = kda.input "w" role "param" storage f32 : !p
  %eps = kda.constant 1.0e-06 [] : !k
  %x2 = kda.mul %x, %x : (!f, !f) -> !f
  %s2 = kda.sum %x2 over ["d"] : (!f) -> !r
  %extent = kda.constant 7.8125e-03 [] : !k
  %mean = kda.mul %s2, %extent : (!r, !k) -> !r
  %u = kda.add %mean, %eps : (!r, !k) -> !r
  %inv = kda.rsqrt %u : (!r) -> !r
  %do = kda.input "do" role "cotangent" storage f32 : !f
  %dz = kda.input "dz" role "cotangent" storage f32 : !f
  %dy = kda.mul %do, %w : (!f, !p) -> !f
  %dyx = kda.mul %dy, %x : (!f, !f) -> !f
  %dinv = kda.sum %dyx over ["d"] : (!f) -> !r
  %half = kda.constant -0.5 [] : !k
  %c0 = kda.mul %dinv, %half : (!r, !k) -> !r
  %i2 = kda.mul %inv, %inv : (!r, !r) -> !r
  %i3 = kda.mul %i2, %inv : (!r, !r) -> !r
  %du = kda.mul %c0, %i3 : (!r, !r) -> !r
  %dmean = kda.mul %du, %extent : (!r, !k) -> !r
  %d2 = kda.mul %dmean, %x : (!r, !f) -> !f
  %d3 = kda.add %d2, %d2 : (!f, !f) -> !f
  %d4 = kda.add %d3, %dz : (!f, !f) -> !f
  %d1 = kda.mul %dy, %inv : (!f, !r) -> !f
  %dx = kda.add %d4, %d1 : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage bf16 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "mean"
// CHECK: %[[EXTENT:.*]] = kda.constant 7.812500e-03 []
// CHECK: %[[INV:.*]] = kda.rsqrt
// CHECK: %[[DZ:.*]] = kda.input "dz"
// CHECK-NEXT: %[[DY:.*]] = kda.mul
// CHECK-NEXT: %[[Y:.*]] = kda.mul %{{.*}}, %[[INV]]
// CHECK-NEXT: %[[DYY:.*]] = kda.mul %[[DY]], %[[Y]]
// CHECK-NEXT: %[[SUM:.*]] = kda.sum %[[DYY]] over ["d"]
// CHECK: %[[ALONG:.*]] = kda.mul %[[SUM]], %[[EXTENT]]
// CHECK-NEXT: %[[PART:.*]] = kda.mul %[[Y]], %[[ALONG]]
// CHECK-NEXT: %[[REST:.*]] = kda.sub %[[DY]], %[[PART]]
// CHECK-NEXT: %[[NORM:.*]] = kda.mul %[[REST]], %[[INV]]
// CHECK-NEXT: kda.add %[[DZ]], %[[NORM]]

// a factor of both parts that varies along the row stays outside the row's sum
kda.kernel "varying_factor" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %w = kda.input "w" role "input" storage bf16 : !f
  %x2 = kda.mul %x, %x : (!f, !f) -> !f
  %s2 = kda.sum %x2 over ["d"] : (!f) -> !r
  %inv = kda.rsqrt %s2 : (!r) -> !r
  %dy = kda.input "dy" role "cotangent" storage f32 : !f
  %dyx = kda.mul %dy, %x : (!f, !f) -> !f
  %dinv = kda.sum %dyx over ["d"] : (!f) -> !r
  %minus = kda.constant -1.0 [] : !k
  %c0 = kda.mul %dinv, %minus : (!r, !k) -> !r
  %i2 = kda.mul %inv, %inv : (!r, !r) -> !r
  %i3 = kda.mul %i2, %inv : (!r, !r) -> !r
  %du = kda.mul %c0, %i3 : (!r, !r) -> !r
  %d2 = kda.mul %du, %x : (!r, !f) -> !f
  %d1 = kda.mul %dy, %inv : (!f, !r) -> !f
  %d2w = kda.mul %d2, %w : (!f, !f) -> !f
  %d1w = kda.mul %d1, %w : (!f, !f) -> !f
  %dx = kda.add %d2w, %d1w : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage bf16 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "varying_factor"
// CHECK: %[[W:.*]] = kda.input "w"
// CHECK: %[[DY:.*]] = kda.input "dy"
// CHECK: %[[Y:.*]] = kda.mul %{{.*}}, %{{.*}}
// CHECK: %[[P:.*]] = kda.mul %[[DY]], %[[Y]]
// CHECK: kda.sum %[[P]] over ["d"]
// CHECK: kda.sub %[[DY]], %{{.*}}
// CHECK: kda.mul %{{.*}}, %[[W]]
// CHECK-NEXT: kda.output

// ---- must not fire
// the correction alone, and dy*inv of another dy
kda.kernel "other_dy" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %x2 = kda.mul %x, %x : (!f, !f) -> !f
  %s2 = kda.sum %x2 over ["d"] : (!f) -> !r
  %inv = kda.rsqrt %s2 : (!r) -> !r
  %dy = kda.input "dy" role "cotangent" storage f32 : !f
  %dz = kda.input "dz" role "cotangent" storage f32 : !f
  %dyx = kda.mul %dy, %x : (!f, !f) -> !f
  %dinv = kda.sum %dyx over ["d"] : (!f) -> !r
  %minus = kda.constant -1.0 [] : !k
  %c0 = kda.mul %dinv, %minus : (!r, !k) -> !r
  %i2 = kda.mul %inv, %inv : (!r, !r) -> !r
  %i3 = kda.mul %i2, %inv : (!r, !r) -> !r
  %du = kda.mul %c0, %i3 : (!r, !r) -> !r
  %d2 = kda.mul %du, %x : (!r, !f) -> !f
  %d1 = kda.mul %dz, %inv : (!f, !r) -> !f
  %dx = kda.add %d2, %d1 : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage bf16 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "other_dy"
// CHECK-NOT: kda.sub
// CHECK: %[[DYX:.*]] = kda.mul %{{.*}}, %{{.*}} : (!kda.value<[b, n, t, h, d], f32>, !kda.value<[b, n, t, h, d], f32>)
// CHECK: kda.add

// another factor in front: 2*inv^3 does not belong to inv
kda.kernel "other_factor" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %x2 = kda.mul %x, %x : (!f, !f) -> !f
  %s2 = kda.sum %x2 over ["d"] : (!f) -> !r
  %inv = kda.rsqrt %s2 : (!r) -> !r
  %dy = kda.input "dy" role "cotangent" storage f32 : !f
  %dyx = kda.mul %dy, %x : (!f, !f) -> !f
  %dinv = kda.sum %dyx over ["d"] : (!f) -> !r
  %minus = kda.constant -2.0 [] : !k
  %c0 = kda.mul %dinv, %minus : (!r, !k) -> !r
  %i2 = kda.mul %inv, %inv : (!r, !r) -> !r
  %i3 = kda.mul %i2, %inv : (!r, !r) -> !r
  %du = kda.mul %c0, %i3 : (!r, !r) -> !r
  %d2 = kda.mul %du, %x : (!r, !f) -> !f
  %d1 = kda.mul %dy, %inv : (!f, !r) -> !f
  %dx = kda.add %d2, %d1 : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage bf16 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "other_factor"
// CHECK-NOT: kda.sub
// CHECK: kda.output

// the row scalar is not a norm of x: sum of x*w
kda.kernel "no_norm" "bwd" axes #axes parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !f
  %w = kda.input "w" role "input" storage bf16 : !f
  %xw = kda.mul %x, %w : (!f, !f) -> !f
  %s2 = kda.sum %xw over ["d"] : (!f) -> !r
  %inv = kda.rsqrt %s2 : (!r) -> !r
  %dy = kda.input "dy" role "cotangent" storage f32 : !f
  %dyx = kda.mul %dy, %x : (!f, !f) -> !f
  %dinv = kda.sum %dyx over ["d"] : (!f) -> !r
  %minus = kda.constant -1.0 [] : !k
  %c0 = kda.mul %dinv, %minus : (!r, !k) -> !r
  %i2 = kda.mul %inv, %inv : (!r, !r) -> !r
  %i3 = kda.mul %i2, %inv : (!r, !r) -> !r
  %du = kda.mul %c0, %i3 : (!r, !r) -> !r
  %d2 = kda.mul %du, %x : (!r, !f) -> !f
  %d1 = kda.mul %dy, %inv : (!f, !r) -> !f
  %dx = kda.add %d2, %d1 : (!f, !f) -> !f
  kda.output %dx as "dx" role "gradient" storage bf16 axes ["b", "n", "t", "h", "d"] : !f
}
// CHECK-LABEL: "no_norm"
// CHECK-NOT: kda.sub
// CHECK: kda.output
