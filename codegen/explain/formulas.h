// SPDX-License-Identifier: Apache-2.0
// A kernel as formulas, with the user's names: what `kdagen explain` prints.
#pragma once
#include <string>
#include <vector>

#include "codegen/ir/Dialect.h"

namespace kdagen {

enum class Notation { text, latex };

/// One line for every named value and every output, in program order. An inner value without a name is folded into its
/// user if it has one use or is short, else it gets an invented name (invented_names.h). Sums are sum_d(..), scans
/// cumsum_t(..) and suffix_sum_t(..). In text the line of the spec stands at the right: [spec:12].
std::string formulas(kda::KernelOp kernel, Notation notation = Notation::text);

/// The same for the head of an emitted text: lines of at most `columns`; a longer one goes on in the next, indented.
std::vector<std::string> formula_lines(kda::KernelOp kernel, size_t columns);

/// One value: its name if it has one, else its formula over the nearest names ("g_T - g_c"), cut short if long.
std::string formula(mlir::Value value);
/// The formula of a named value, one level deep ("cumsum_t(g)").
std::string definition(mlir::Value value);

}  // namespace kdagen
