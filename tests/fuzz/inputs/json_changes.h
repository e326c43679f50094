// SPDX-License-Identifier: Apache-2.0
// Changes to the values of a JSON document.
#pragma once
#include <string>

namespace kdagen::testing {

/// The document with one to three of its values replaced, left out, doubled, or moved to another place, drawn by
/// `seed`. Empty if the bytes are no JSON.
std::string change_json(const std::string& bytes, unsigned seed);

}  // namespace kdagen::testing
