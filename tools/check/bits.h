// SPDX-License-Identifier: Apache-2.0
// A text on the emulator against the program that it spells out: what a bound cannot see, a sum in another order, a
// lost fma, an epsilon that is a little off.
#pragma once
#include <memory>
#include <vector>

#include "codegen/pipeline.h"
#include "tools/check/subject.h"
#include "tools/judge/judge.h"

namespace kdagen {

/// The numbers that a text of this pass must give on the emulator to the last bit: its primitives one by one in
/// float32, sums in the orders of codegen/evaluator/orders.h, outputs rounded to their storage.
std::unique_ptr<Subject> spelled_out_subject(Compilation& compilation);

/// One verdict for every tensor of `expected`; NaN equals nothing, and the sign of a zero does not count.
std::vector<Verdict> compare_bits(const Tensors& expected, const Tensors& actual);

}  // namespace kdagen
