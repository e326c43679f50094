// SPDX-License-Identifier: Apache-2.0
// What the runtime is told about a text.
#pragma once
#include "codegen/emit/emit.h"
#include "codegen/emit/names.h"

namespace kdagen::emit {

/// Tensors, workspace and arguments (in the order of the argument struct); launches are added with the entries.
runtime::Manifest describe(const schedule::Program& program, const Names& names, const EmitOptions& options);
/// The argument struct's members in order: C++ type and name.
struct Member {
  std::string type, name, comment;
};
std::vector<Member> argument_members(const schedule::Program& program, const Names& names,
                                     const runtime::Manifest& manifest);
/// spec_fwd or spec_bwd.
std::string kernel_name(const schedule::Program& program);
/// Floats of one partial of a parameter sum: the padded columns, or 1.
int partial_width(const schedule::Program& program, const schedule::ParameterSum& sum);

}  // namespace kdagen::emit
