// SPDX-License-Identifier: Apache-2.0
// All outputs of a pass against their references: chooses each output's rule.
#pragma once
#include "codegen/evaluator/evaluator.h"
#include "specs/workloads/workload.h"
#include "tools/judge/report.h"

namespace kdagen {

/// What a pass is compared with.
struct Reference {
  Tensors tensors;           ///< float64, canonical
  evaluator::Arrays errors;  ///< running error analysis by name; may lack tensors
  /// Terms of parameter gradients, and the errors that no program avoids, by name d<param> and d<input>.
  std::map<std::string, ParameterTerms> terms;
  Tensors unavoidable;
};

struct ComparisonOptions {
  Oracle oracle = Oracle::kernel;
  std::string regime;
  double factor = 1;                          ///< K
  std::string storage;                        ///< what the values went through; empty: each tensor's declared dtype
  const ConsumerOptions* consumer = nullptr;  ///< set: the workload's own bounds count
};

/// One verdict for every tensor of `reference` that has a rule; `actual` holds values of the declared dtypes.
std::vector<Verdict> compare_outputs(const Problem& problem, const Workload& workload, const Reference& reference,
                                     const Tensors& actual, kda::KernelOp kernel, const ComparisonOptions& options);

}  // namespace kdagen
