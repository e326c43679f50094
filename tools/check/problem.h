// SPDX-License-Identifier: Apache-2.0
// From a compiled spec to what its workload and the evaluator ask for.
#pragma once
#include <string>
#include <vector>

#include "codegen/evaluator/evaluator.h"
#include "codegen/options.h"
#include "specs/workloads/workload.h"

namespace kdagen {

/// The spec's option values, inputs with bounds, and outputs, from its graph (JSON) and its imported forward.
/// `shape`'s chunk and dim are taken from the graph.
Problem problem_of(const std::string& graph, kda::KernelOp forward, Shape shape);

/// How the caller stores each output's cotangent: f32, bf16 or fp16row, by output name.
std::map<std::string, std::string> cotangent_storage(const Problem& problem, const CompileOptions& options);

/// A tensor of a kernel with the roles of its axes; bounds are left open.
Declaration declaration_of(kda::KernelOp kernel, const evaluator::TensorInfo& info);

evaluator::Instance instance_of(const Shape& shape);
evaluator::Arrays arrays_of(const Tensors& tensors);
/// Canonical tensors with the names and dtypes of `kernel`'s outputs.
Tensors tensors_of(evaluator::Arrays arrays, kda::KernelOp kernel, const Shape& shape);

/// Every third row of an input that has rows and features times 2^-13, if its bounds allow it: the squared norm of a
/// row of 128 normal numbers is then near 1e-6.
void shrink_rows(const Declaration& declaration, const Shape& shape, HostTensor& tensor);

/// Every third row, none of shrink_rows's, times 2^66: then its squares sum up to more than a float holds. Nothing
/// changes where the storage or the bounds have no such numbers.
void grow_rows(const Declaration& declaration, const Shape& shape, HostTensor& tensor);

/// NaN wherever no sequence reads: rows after the last offset and surplus tiles.
void poison_unread(const Declaration& declaration, const Shape& shape, HostTensor& tensor);

}  // namespace kdagen
