// SPDX-License-Identifier: Apache-2.0
// What the options change in what a backward reads and writes.
// RUN: kdagen-opt %s --kda-derive="set=save=G,upstream=fp16row,grads=f32,tap=dG" | FileCheck %s
// RUN: kdagen-opt %s --kda-prepare-forward="set=save=G" | FileCheck %s --check-prefix=FORWARD
// RUN: not kdagen-opt %s --kda-derive="set=save=H" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not kdagen-opt %s --kda-derive="set=upstream.z=bf16" 2>&1 | FileCheck %s --check-prefix=OUTPUT

// CHECK-NOT: kda.input "x"
// CHECK: kda.input "G" role "residual" storage f32
// CHECK: kda.input "dy" role "cotangent" storage f16
// CHECK: kda.input "dy_exp" role "cotangent" storage i8 {lower = -1.280000e+02 : f64, upper = 1.270000e+02 : f64} : <[b, n, t, h], f32>
// CHECK: kda.output %{{.*}} as "dx" role "gradient" storage f32
// CHECK: kda.output %{{.*}} as "dG" role "tap" storage f32

// FORWARD: kda.output %{{.*}} as "G" role "residual" storage f32 axes ["b", "n", "t", "h", "d"]
// UNKNOWN: option save=H: no inner value is called 'H'; there are G
// OUTPUT: option upstream.z: the spec has no such output; it has y
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
!P = !kda.value<[h, d], f32>
!H = !kda.value<[h], f32>
!K = !kda.value<[], f32>
kda.kernel "saved" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %G = kda.scan %x over "t" exclusive false reverse false : (!T) -> !T loc("G")
  %y = kda.exp2 %G : (!T) -> !T
  kda.output %y as "y" role "output" storage bf16 axes ["b", "n", "t", "h", "d"] : !T
}
