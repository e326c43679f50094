// SPDX-License-Identifier: Apache-2.0
// Cotangents as a caller stores them.
#pragma once
#include "codegen/evaluator/evaluator.h"
#include "specs/workloads/workload.h"

namespace kdagen {

/// Rounds each float64 cotangent d<output> to the dtype that `backward` reads. Where it also reads d<output>_exp, a row
/// is stored as value * 2^-exponent with one integer exponent that puts the row's largest element near 2^14.
/// What no sequence reads is NaN. Cotangents that the backward does not read are left out.
Tensors store_cotangents(const Tensors& upstream, kda::KernelOp backward, const Problem& problem);

/// The float64 values that stored cotangents stand for.
Tensors read_cotangents(const Tensors& stored, const Problem& problem);

}  // namespace kdagen
