// SPDX-License-Identifier: Apache-2.0
// No op may be ill-axed.
// RUN: kdagen-opt %s --split-input-file --verify-diagnostics
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
kda.kernel "k" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %r = kda.input "r" role "input" storage bf16 : !R
  // expected-error @+1 {{must have the union of its operands' axes}}
  %y = kda.mul %x, %r : (!T, !R) -> !R
}

// -----
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
kda.kernel "k" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %r = kda.input "r" role "input" storage bf16 : !R
  // expected-error @+1 {{has no axis "d", along which its value varies}}
  kda.output %x as "y" role "output" storage f32 axes ["b", "n", "t", "h"] : !T
}

// -----
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
kda.kernel "k" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %r = kda.input "r" role "input" storage bf16 : !R
  // expected-error @+1 {{must keep its operand's type}}
  %y = kda.scan %x over "t" exclusive false reverse false : (!T) -> !R
}

// -----
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
kda.kernel "k" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %r = kda.input "r" role "input" storage bf16 : !R
  // expected-error @+1 {{goes over 'd', which is not the row axis}}
  %y = kda.scan %x over "d" exclusive false reverse false : (!T) -> !T
}

// -----
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
kda.kernel "k" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %r = kda.input "r" role "input" storage bf16 : !R
  // expected-error @+1 {{goes over axis 'd', which its operand lacks}}
  %y = kda.sum %r over ["d"] : (!R) -> !R
}

// -----
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
kda.kernel "k" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %r = kda.input "r" role "input" storage bf16 : !R
  // expected-error @+1 {{must go over at least one axis}}
  %y = kda.sum %r over [] : (!R) -> !R
}

// -----
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
kda.kernel "k" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %r = kda.input "r" role "input" storage bf16 : !R
  // expected-error @+1 {{must keep the operand's other axes}}
  %y = kda.last %x over "t" : (!T) -> !R
}

// -----
!T = !kda.value<[b, n, t, h, d], f32>
!R = !kda.value<[b, n, t, h], f32>
!C = !kda.value<[b, n, h, d], f32>
kda.kernel "k" "fwd" axes [#kda.axis<"b", batch, 0>, #kda.axis<"n", chunk, 0>, #kda.axis<"t", rows, 16>, #kda.axis<"h", head, 0>, #kda.axis<"d", feature, 32>] parallel ["b", "n", "h"] sequential [] options {} {
  %x = kda.input "x" role "input" storage bf16 : !T
  %r = kda.input "r" role "input" storage bf16 : !R
  // expected-error @+1 {{may not drop axis "d"}}
  %y = kda.broadcast %x : (!T) -> !R
}
