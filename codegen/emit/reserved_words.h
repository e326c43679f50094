// SPDX-License-Identifier: Apache-2.0
// What no value of an emitted text may be called.
#pragma once
#include <set>
#include <string>

namespace kdagen::emit {

/// Words that mean something to C++, to the headers that compilers of CUDA read by themselves, or to the emitted text.
const std::set<std::string>& reserved_words();

/// What the prelude declares for emitted texts to call: a value of such a name would hide it.
const std::set<std::string>& prelude_names();

/// Functions, types and variables of the standard library and of CUDA: what is declared at namespace scope beside them
/// cannot have their names.
const std::set<std::string>& global_names();

/// Macros stand in for any name: those of headers are written in capitals (NAN, INT_MAX), or start as these do. So do
/// the functions of the prelude and its emulator.
bool belongs_to_headers(const std::string& name);

}  // namespace kdagen::emit
