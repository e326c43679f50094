// SPDX-License-Identifier: Apache-2.0
// A random spec as plain numbers: what rapidcheck draws, and makes smaller.
#pragma once
#include <cstdint>
#include <vector>

#include <rapidcheck.h>

namespace kdagen::fuzz {

/// Numbers from 0 to 63. What they choose among depends on what is there (tools/fuzz/sketch.cpp): any recipe is a spec,
/// and so is one with genes taken out. 0 stands for the plainest choice.
struct Gene {
  int what = 0, a = 0, b = 0, c = 0, detail = 0;
};
inline constexpr int gene_values = 64;

struct Recipe {
  std::vector<int> settings;  ///< sizes, dtypes, layouts, ...; what is missing is 0
  std::vector<Gene> tensors, steps, outputs;
};

/// `steps`: about how many operations a spec has at most.
rc::Gen<Recipe> recipes(int steps = 48);
/// The recipe of a seed, with the smaller ones around it.
rc::Shrinkable<Recipe> recipe_of(uint64_t seed, int steps = 48);

}  // namespace kdagen::fuzz
