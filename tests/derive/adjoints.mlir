// SPDX-License-Identifier: Apache-2.0
// One backward a case: the adjoint of the op in its name.
// RUN: kdagen-opt %s --split-input-file --kda-derive | FileCheck %s
// CHECK-LABEL: kda.kernel "exp2" "bwd"
// CHECK: %[[Y:.*]] = kda.exp2 %
// CHECK: %[[DY:.*]] = kda.input "dy" role "cotangent" storage f32
// CHECK: %[[P:.*]] = kda.mul %[[DY]], %[[Y]]
// CHECK: %[[LN2:.*]] = kda.constant 1.000000e+00 [#kda.symbol<"ln2", {{.*}}, 1>]
// CHECK: %[[DX:.*]] = kda.mul %[[P]], %[[LN2]]
// CHECK: kda.output %[[DX]] as "dx" role "gradient" storage bf16
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!K = !kda.value<[], f32>
kda.kernel "exp2" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %y = kda.exp2 %x : (!T) -> !T
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
}

// -----
// CHECK-LABEL: kda.kernel "sigmoid" "bwd"
// CHECK: %[[Y:.*]] = kda.sigmoid %
// CHECK: %[[REST:.*]] = kda.sub %{{.*}}, %[[Y]]
// CHECK: %[[SLOPE:.*]] = kda.mul %[[Y]], %[[REST]]
// CHECK: %[[DX:.*]] = kda.mul %{{.*}}, %[[SLOPE]]
// CHECK: kda.output %[[DX]] as "dx"
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!K = !kda.value<[], f32>
kda.kernel "sigmoid" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %y = kda.sigmoid %x : (!T) -> !T
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
}

// -----
// CHECK-LABEL: kda.kernel "rsqrt" "bwd"
// the range of x^2+1 shows that the derivative has no pole: no guard
// CHECK-NOT: kda.select
// CHECK: kda.output %{{.*}} as "dx"
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!K = !kda.value<[], f32>
kda.kernel "rsqrt" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %one = kda.constant 1.0 [] : !K
  %q = kda.mul %x, %x : (!T, !T) -> !T
  %s = kda.add %q, %one : (!T, !K) -> !T
  %y = kda.rsqrt %s : (!T) -> !T
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
}

// -----
// CHECK-LABEL: kda.kernel "guarded" "bwd"
// x may be 0, where dy = 0 must give 0 and not NaN
// CHECK: %[[ZERO:.*]] = kda.constant 0.000000e+00
// CHECK: %[[NONE:.*]] = kda.equal %[[DY:.*]], %[[ZERO]]
// CHECK: %[[DX:.*]] = kda.select %[[NONE]], %[[ZERO]], %
// CHECK: kda.output %[[DX]] as "dx"
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!K = !kda.value<[], f32>
kda.kernel "guarded" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %y = kda.sqrt %x : (!T) -> !T
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
}

// -----
// CHECK-LABEL: kda.kernel "scan" "bwd"
// CHECK: %[[DY:.*]] = kda.input "dy"
// CHECK: %[[DX:.*]] = kda.scan %[[DY]] over "t" exclusive true reverse true
// CHECK: kda.output %[[DX]] as "dx"
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!K = !kda.value<[], f32>
kda.kernel "scan" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %y = kda.scan %x over "t" exclusive true reverse false : (!T) -> !T
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
}

// -----
// CHECK-LABEL: kda.kernel "last" "bwd"
// CHECK: %[[AT:.*]] = kda.at_last %{{.*}} over "t" : (!kda.value<[b, n, h, d], f32>) -> !kda.value<[b, n, t, h, d], f32>
// CHECK: kda.output %[[AT]] as "dx"
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!K = !kda.value<[], f32>
kda.kernel "last" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %l = kda.last %x over "t" : (!T) -> !C
  %y = kda.mul %l, %l : (!C, !C) -> !C
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "h", "d"] : !C
}

// -----
// CHECK-LABEL: kda.kernel "shift" "bwd"
// CHECK: %[[DY:.*]] = kda.input "dy"
// CHECK: kda.shift %[[DY]] over "t" amount -3 fill 0.000000e+00
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!K = !kda.value<[], f32>
kda.kernel "shift" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %y = kda.shift %x over "t" amount 3 fill 1.0 : (!T) -> !T
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
}

// -----
// CHECK-LABEL: kda.kernel "row_sum" "bwd"
// CHECK: kda.input "dy"
// CHECK: %[[DS:.*]] = kda.sum %{{.*}} over ["d"] : (!kda.value<[b, n, t, h, d], f32>) -> !kda.value<[b, n, t, h], f32>
// a broadcast is left out where the other operand has the axes
// CHECK-NOT: kda.broadcast
// CHECK: kda.add %[[DS]], %
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!K = !kda.value<[], f32>
kda.kernel "row_sum" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %s = kda.sum %x over ["d"] : (!T) -> !R
  %y = kda.mul %x, %s : (!T, !R) -> !T
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
}

// -----
// CHECK-LABEL: kda.kernel "parameter" "bwd"
// CHECK: %[[ROWS:.*]] = kda.sum %{{.*}} over ["t"]
// CHECK: %[[TILES:.*]] = kda.sum %[[ROWS]] over ["b", "n"]
// CHECK: %[[DP:.*]] = kda.sum %[[TILES]] over ["d"] : (!kda.value<[h, d], f32>) -> !kda.value<[h], f32>
// CHECK: kda.output %[[DP]] as "dp" role "param_gradient" storage f32 axes ["h"]
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!K = !kda.value<[], f32>
kda.kernel "parameter" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %p = kda.input "p" role "param" storage f32 : !H
  %y = kda.mul %x, %p : (!T, !H) -> !T
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
}

// -----
// CHECK-LABEL: kda.kernel "detached" "bwd"
// 2^(x - detach(x)) is 1, but its derivative is there
// CHECK-NOT: kda.detach
// CHECK-NOT: kda.exp2
// CHECK: kda.symbol<"ln2"
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!K = !kda.value<[], f32>
kda.kernel "detached" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %k = kda.detach %x : (!T) -> !T
  %z = kda.sub %x, %k : (!T, !T) -> !T
  %e = kda.exp2 %z : (!T) -> !T
  %y = kda.mul %x, %e : (!T, !T) -> !T
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
}

// -----
// CHECK-LABEL: kda.kernel "unit" "bwd"
// CHECK: %[[DY:.*]] = kda.input "dy"
// CHECK: kda.mul %[[DY]], %
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!K = !kda.value<[], f32>
kda.kernel "unit" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %y = kda.neg %x : (!T) -> !T
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] {unit_coefficient = 1.0 : f64, unit_symbols = [#kda.symbol<"ln2", 0.69314718055994529 : f64, 1>]} : !T
}
