// SPDX-License-Identifier: Apache-2.0
// The expressions that random specs are made of: each is written once, and is C++ text, a value of a spec, and an
// estimate.
#pragma once
#include <string_view>
#include <vector>

#include "tools/fuzz/estimate.h"

namespace kdagen::fuzz {

/// What stands behind the letters of a form: a, b, c any values; g an exponent, such as a sum of gates; p a parameter;
/// k a number; n a number of rows; x and y numbers that are options of the spec, kept by name.
template <class V, class A, class K>
struct Letters {
  V a, b, c, g, p;
  double k = 1;
  long long n = 1;
  A t, h, d;
  K x, y;
};
using ValueLetters = Letters<Value, Axis, Constant>;
using EstimateLetters = Letters<Estimate, AxisMark, Constant>;

struct Form {
  std::string_view text;  ///< C++, in these letters
  Value (*value)(const ValueLetters&);
  Estimate (*estimate)(const EstimateLetters&);
  int weight;
  bool decay;  ///< of the kind that decay products are made of

  bool uses(char letter) const;
};

const std::vector<Form>& forms();
/// Positions in forms(), each as often as it weighs; `decays`: those alone.
const std::vector<int>& weighted_forms(bool decays);

/// The form's text with every letter that is a word of its own replaced by what `replacement` gives for it.
std::string written(const Form& form, const std::function<std::string(char)>& replacement);

}  // namespace kdagen::fuzz
